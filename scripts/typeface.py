#!/usr/bin/env python3
"""Makes src/viz/typeface.c, the letters of pictures, from DejaVu Sans. Wants Pillow.

typeface.py DejaVuSans.ttf >src/viz/typeface.c
"""
import sys

from PIL import Image, ImageDraw, ImageFont

SIZES = (11, 15)
FIRST, LAST = 32, 126
LINE = 92

HEAD = '''/* Made by scripts/typeface.py of DejaVu Sans, Copyright (c) 2003 by Bitstream, Inc., whose changes
 * are in the public domain. Bitstream Vera is a trademark of Bitstream, Inc. The licence lets it be
 * copied and changed within other software, as long as this notice goes with it. */
#include "viz/typeface.h"

/* clang-format off */
'''


def glyph(font, letter):
    """Advance, left, top (from the top of a line), width, height and coverage, a hexadecimal digit a pixel."""
    advance = round(font.getlength(letter))
    image = Image.new('L', (3 * font.size, 2 * font.size), 0)
    ImageDraw.Draw(image).text((font.size, 0), letter, fill=255, font=font)
    left, top, right, bottom = image.getbbox() or (font.size, 0, font.size, 0)
    image = image.crop((left, top, right, bottom))
    pixels = ''.join('%x' % round(value / 17) for value in image.tobytes())
    return advance, left - font.size, top, right - left, bottom - top, pixels


def write(path):
    print(HEAD, end='')
    for size in SIZES:
        font = ImageFont.truetype(path, size)
        print(f'static const TypeGlyph glyphs{size}[] = {{')
        for code in range(FIRST, LAST + 1):
            *places, pixels = glyph(font, chr(code))
            print(f'    {{{", ".join(map(str, places))},')
            lines = [pixels[i:i + LINE] for i in range(0, max(1, len(pixels)), LINE)]
            print('\n'.join(f'     "{line}"' for line in lines) + '},')
        print('};\n')
    print('/* clang-format on */\n')
    print('const TypeGlyph *const typefaces[TYPE_SIZES] = {')
    for size in SIZES:
        print(f'    glyphs{size},')
    print('};')


write(sys.argv[1])
