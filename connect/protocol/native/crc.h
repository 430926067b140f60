/* CRC-32C (Castagnoli), as Kafka's record batches use it. */

#ifndef CONNECT_PROTOCOL_CRC_H
#define CONNECT_PROTOCOL_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Fills the tables. Call once, before the other functions. */
void crc_prepare(void);

uint32_t crc_of(const uint8_t *data, size_t size);

/* Returns what to XOR to the CRC of data in which `size` bytes changed from `before` to `after`;
 * `following` bytes come after them. Takes the same time whatever `following` is. */
uint32_t crc_change(const uint8_t *before, const uint8_t *after, size_t size, size_t following);

#endif
