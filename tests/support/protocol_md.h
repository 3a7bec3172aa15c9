/* The hex examples of proto/PROTOCOL.md, so that tests can decode what the specification shows.
 *
 * An example is a fenced block whose info string is "hex" and a name. In it are pairs of hex digits, blanks, and
 * comments from "#" to the end of the line:
 *
 *     ```hex frame ping
 *     06 00 08                    # PING, 8 bytes
 *     01 23 45 67 89 ab cd ef     # token
 *     ```
 *
 * The first word of a name says what the bytes are: frame, message, packet, key, map. TF_PROTOCOL_MD is the path of the
 * document (a definition of tests/support/CMakeLists.txt). No Check in here. */
#ifndef TF_TESTS_SUPPORT_PROTOCOL_MD_H
#define TF_TESTS_SUPPORT_PROTOCOL_MD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TF_DOC_NAME_MAX 80u

/* The bytes of the block of that name ("frame ping"). False: there is none, or it does not fit into cap. A document
 * that cannot be read, a block that is not hex or not closed, and a name that occurs twice abort with a message. */
bool tf_doc_block(const char *name, uint8_t *buf, size_t cap, size_t *len);

/* The name of the hex block number `index` (from 0), in the order of the document; false behind the last one. */
bool tf_doc_block_name(size_t index, char name[TF_DOC_NAME_MAX]);

#endif
