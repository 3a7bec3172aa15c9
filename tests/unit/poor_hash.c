/* In place of the library's: a hash of two values, whatever the seed, so that what is kept by its hash shares it with
 * half of the others. */
#include <xxhash.h>

XXH64_hash_t XXH3_64bits_withSeed(const void *input, size_t length, XXH64_hash_t seed)
{
    const unsigned char *bytes = input;
    (void)seed;
    return length > 0 ? bytes[length - 1] & 1u : 0;
}
