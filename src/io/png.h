/* PNG images of a known size, through libpng: those of 8-bit grey are read, or any, and 8-bit grey
 * and colour written.
 *
 * Readers are meant for files from elsewhere: another size, and for png_grey_decode anything but 8
 * bits, grey and not interlaced, is refused before memory is taken; chunks that the pixels do not
 * need are passed over, whatever they hold, but for palettes and transparency, which libpng checks;
 * a wrong checksum in any chunk, data that break off, and pixel data too many or too few are errors
 * (EX_DATAERR). */
#ifndef IO_PNG_H
#define IO_PNG_H

#include <stddef.h>

#include "core/err.h"

/* Decodes a file's bytes into grey (height,width); `name` is for messages. Bytes behind the image's
 * end are not looked at. */
bool png_grey_decode(unsigned char *grey, int width, int height, const void *bytes, size_t size,
                     const char *name, Err *err);

/* Decodes any PNG of that size, whatever its depth, colours and transparency (on black), into rgb
 * (height,width,3), values as they stand in the file: no gamma is applied. EX_DATAERR. */
bool png_rgb_decode(unsigned char *rgb, int width, int height, const void *bytes, size_t size,
                    const char *name, Err *err);

/* Whether these bytes are chunks from a PNG's signature to its end chunk, each with its checksum:
 * what a full disk cut off is not. */
bool png_is_whole(const void *bytes, size_t size);

/* Writes a file, atomically (io/file.h), but without waiting for the disk: there may be 200,000. */
bool png_grey_write(const char *path, const unsigned char *grey, int width, int height, Err *err);

/* The same in colour, rgb (height,width,3), and on the disk when it returns. */
bool png_rgb_write(const char *path, const unsigned char *rgb, int width, int height, Err *err);

#endif
