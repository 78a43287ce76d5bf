/*
 * crc32c.h - CRC-32C (Castagnoli), the checksum of record batches: at the speed of memory.
 *
 * crc32c() runs on SSE4.2 or ARMv8 instructions in three interleaved streams when the processor
 * has them, else on tables. crc32c_combine() joins the CRCs of two neighbouring pieces without
 * their bytes, so that a batch's header can be rewritten without reading its records again.
 * The CRC-32 of the old message sets is zlib's crc32().
 *
 * Thread: any. The tables are filled when the program is loaded.
 */
#ifndef CAFKA_RECORD_CRC32C_H
#define CAFKA_RECORD_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what `crc` is the CRC of, followed by data; 0 is the CRC of nothing. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* The CRC of a piece with crc1 followed by a piece of size2 bytes with crc2. About 10 ns. */
uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, size_t size2);

/* What crc32c() is without help from the processor; for tests and other processors. */
uint32_t crc32c_software(uint32_t crc, const void *data, size_t size);

/* "sse4.2", "armv8" or "software". */
const char *crc32c_implementation(void);

#endif
