/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CRC32c as MPA uses it (RFC 5044 §4.4). */
#ifndef PARLEY_CRC_H
#define PARLEY_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Call it once before any other function. */
void parley_crc_init(void);
/* The CRC field's value, read least significant octet first. */
uint32_t parley_crc32c(const uint8_t* data, size_t length);

#endif
