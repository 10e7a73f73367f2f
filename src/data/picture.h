/* Grey pictures for people, on standard output. */
#ifndef DATA_PICTURE_H
#define DATA_PICTURE_H

/* The side of the smallest square that has room for so many pixels. */
int picture_side(int pixels);

/* grey (height,width), 0 to 255. On a terminal two rows of pixels a line, as half-blocks in 24-bit
 * colour (where COLORTERM says so) or 256 colours; elsewhere, or with NO_COLOR or TERM=dumb, a ramp
 * of characters; CLICOLOR_FORCE=1 has colours everywhere. What is wider than the terminal
 * (log_columns; 80 letters where nothing says) is shrunk by a whole number. */
void picture_print(const int *grey, int width, int height);

#endif
