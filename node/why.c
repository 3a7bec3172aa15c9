#include "node/why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

tf_err tf_why(char why[TF_WHY_MAX], const char *format, ...)
{
    if (why != NULL) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(why, TF_WHY_MAX, format, arguments);
        va_end(arguments);
    }
    return TF_ERR_USAGE;
}

tf_err tf_why_failed(tf_err err, const char *what, char why[TF_WHY_MAX])
{
    int error = errno;
    (void)tf_why(why, "%s: %s", what, err == TF_ERR_IO && error != 0 ? strerror(error) : tf_err_text(err));
    return err;
}

tf_quoted tf_quote(tf_slice text)
{
    static const size_t most = TF_QUOTED_MAX - 6; /* two quotes, "..." and the NUL */
    tf_quoted quoted;
    size_t n = text.len < most ? text.len : most;
    char *at = quoted.text;
    *at++ = '"';
    for (size_t i = 0; i < n; i++) {
        uint8_t c = text.data[i];
        bool plain = c >= 0x20 && c != 0x7f && c != '"';
        *at++ = (char)(plain ? c : (uint8_t)'?');
    }
    if (n < text.len) {
        at = memcpy(at, "...", 3);
        at += 3;
    }
    *at++ = '"';
    *at = '\0';
    return quoted;
}
