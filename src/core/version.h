/* The version, for --version and what is written into runs. */
#ifndef CORE_VERSION_H
#define CORE_VERSION_H

#define CAST_VERSION "0.2.0"

#endif
