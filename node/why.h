/* Texts for people that say what was wrong and what would be right. Any thread. */
#ifndef TF_NODE_WHY_H
#define TF_NODE_WHY_H

#include "proto/types.h"

#define TF_WHY_MAX 256u /* room for the text and a NUL */
#define TF_QUOTED_MAX 80u

/* printf into why; cut when it is longer. why may be NULL. Gives TF_ERR_USAGE, which is what most of them are about. */
tf_err tf_why(char why[TF_WHY_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "what: why it failed": of TF_ERR_IO the text of errno, else that of the error, which is given back. */
tf_err tf_why_failed(tf_err err, const char *what, char why[TF_WHY_MAX]);

/* What someone wrote, in quotes, fit to be shown on a terminal: control bytes as '?', cut after some 70 bytes ("..."). */
typedef struct tf_quoted {
    char text[TF_QUOTED_MAX];
} tf_quoted;

tf_quoted tf_quote(tf_slice text);

#endif
