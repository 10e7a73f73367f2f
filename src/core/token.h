/* An id that no vocabulary has. */
#ifndef CORE_TOKEN_H
#define CORE_TOKEN_H

/* Of a token that is masked: the model does not see which one it is (ops/embed.h). */
enum { TOKEN_MASKED = -1 };

#endif
