#include "paths/link_numbers.h"

#define TOLD_ENOUGH 8u

static void remove_at(tf_link_numbers *numbers, size_t i)
{
    size_t after = numbers->count - i - 1;
    memmove(&numbers->ranges[i], &numbers->ranges[i + 1], after * sizeof(numbers->ranges[0]));
    memmove(&numbers->told[i], &numbers->told[i + 1], after);
    numbers->count--;
}

static void insert_at(tf_link_numbers *numbers, size_t i, uint64_t number)
{
    if (i == TF_ACK_RANGES_MAX) {
        return;
    }
    if (numbers->count == TF_ACK_RANGES_MAX) {
        numbers->count--;
    }
    size_t after = numbers->count - i;
    memmove(&numbers->ranges[i + 1], &numbers->ranges[i], after * sizeof(numbers->ranges[0]));
    memmove(&numbers->told[i + 1], &numbers->told[i], after);
    numbers->ranges[i] = (tf_range){.first = number, .last = number};
    numbers->told[i] = 0;
    numbers->count++;
}

/* Puts number into the ranges; i: the first range that does not lie wholly above it. */
static void place(tf_link_numbers *numbers, size_t i, uint64_t number)
{
    bool joins_above = i > 0 && numbers->ranges[i - 1].first == number + 1;
    bool joins_below = i < numbers->count && numbers->ranges[i].last + 1 == number;
    if (joins_above && joins_below) {
        numbers->ranges[i - 1].first = numbers->ranges[i].first;
        numbers->told[i - 1] = 0;
        remove_at(numbers, i);
    } else if (joins_above) {
        numbers->ranges[i - 1].first = number;
        numbers->told[i - 1] = 0;
    } else if (joins_below) {
        numbers->ranges[i].last = number;
        numbers->told[i] = 0;
    } else {
        insert_at(numbers, i, number);
    }
}

bool tf_link_numbers_add(tf_link_numbers *numbers, tf_time now, uint64_t number)
{
    bool in_order = numbers->count == 0 || numbers->ranges[0].last + 1 == number;
    if (numbers->count == 0 || number > numbers->ranges[0].last) {
        numbers->largest_at = now;
    }
    size_t i = 0;
    while (i < numbers->count && numbers->ranges[i].first > number) {
        i++;
    }
    if (i == numbers->count || numbers->ranges[i].last < number) {
        place(numbers, i, number);
    }
    return !in_order;
}

void tf_link_numbers_fill(tf_link_numbers *numbers, tf_time now, tf_packet_ack *ack)
{
    TF_ASSERT(numbers->count > 0);
    ack->delay = now - numbers->largest_at;
    ack->range_count = numbers->count;
    memcpy(ack->ranges, numbers->ranges, numbers->count * sizeof(numbers->ranges[0]));
    for (size_t i = numbers->count; i > 0; i--) {
        numbers->told[i - 1]++;
        if (i > 1 && numbers->told[i - 1] >= TOLD_ENOUGH) {
            remove_at(numbers, i - 1);
        }
    }
    if (numbers->told[0] >= TOLD_ENOUGH) {
        numbers->told[0] = 0;
    }
}
