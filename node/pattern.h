/* Patterns of channel names, as they stand in the configuration: * stands for any bytes, none too, and / among them; ? for
 * exactly one; everything else for itself. Pure. Any thread. */
#ifndef TF_NODE_PATTERN_H
#define TF_NODE_PATTERN_H

#include "proto/limits.h"
#include "proto/types.h"

/* 1 to TF_CHANNEL_NAME_MAX bytes of the alphabet of channel names, * and ? */
bool tf_pattern_is_valid(tf_slice pattern);
/* Steps are bounded by the product of both lengths. */
bool tf_pattern_matches(tf_slice pattern, tf_slice name);

#endif
