/* CRC-32C: by the processor's own instruction where there is one, else by tables.
 *
 * The CRC is linear over GF(2): the CRCs of two texts of equal length differ by the CRC (without the
 * initial and final inversion) of their XOR. Zeros that follow multiply it by a power of x, modulo
 * the polynomial, which takes one multiplication for each bit set in their number. */

#include "crc.h"

#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define HAS_X86_CRC 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define HAS_ARM_CRC 1
#endif

#define POLYNOMIAL 0x82F63B78u /* bit-reversed */
#define POWERS 40              /* x^(2^k); sizes below 2^37 bytes */
#define SHIFT_OF_A_BYTE 3      /* x^8 = x^(2^3) */

static uint32_t table[8][256];
static uint32_t powers[POWERS];

/* The product of two polynomials modulo POLYNOMIAL; bit 31 is x^0. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    while (a) {
        product ^= b & (uint32_t)-(int32_t)(a >> 31);
        a <<= 1;
        b = (b >> 1) ^ (POLYNOMIAL & (uint32_t)-(int32_t)(b & 1));
    }
    return product;
}

static uint32_t times_zeros(uint32_t crc, size_t bytes) {
    for (unsigned k = SHIFT_OF_A_BYTE; bytes; bytes >>= 1, k++)
        if (bytes & 1) crc = multiply(powers[k], crc);
    return crc;
}

void crc_prepare(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (POLYNOMIAL & (uint32_t)-(int32_t)(crc & 1));
        table[0][n] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int n = 0; n < 256; n++)
            table[t][n] = (table[t - 1][n] >> 8) ^ table[0][table[t - 1][n] & 0xFF];
    powers[0] = 1u << 30;
    for (int k = 1; k < POWERS; k++) powers[k] = multiply(powers[k - 1], powers[k - 1]);
}

static uint32_t by_tables(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16
                              | (uint32_t)data[3] << 24);
        crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF]
              ^ table[4][low >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]]
              ^ table[0][data[7]];
    }
    for (; size; data++, size--) crc = (crc >> 8) ^ table[0][(crc ^ *data) & 0xFF];
    return crc;
}

#if HAS_X86_CRC
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *data,
                                                                 size_t size) {
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size; data++, size--) crc = _mm_crc32_u8(crc, *data);
    return crc;
}
#elif HAS_ARM_CRC
static uint32_t by_instruction(uint32_t crc, const uint8_t *data, size_t size) {
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = __crc32cd(crc, word);
    }
    for (; size; data++, size--) crc = __crc32cb(crc, *data);
    return crc;
}
#endif

/* Without the inversions at the beginning and at the end. */
static uint32_t raw(uint32_t crc, const uint8_t *data, size_t size) {
#if HAS_X86_CRC
    if (__builtin_cpu_supports("sse4.2")) return by_instruction(crc, data, size);
#elif HAS_ARM_CRC
    return by_instruction(crc, data, size);
#endif
    return by_tables(crc, data, size);
}

uint32_t crc_of(const uint8_t *data, size_t size) { return ~raw(0xFFFFFFFFu, data, size); }

uint32_t crc_change(const uint8_t *before, const uint8_t *after, size_t size, size_t following) {
    uint32_t crc = 0;
    for (size_t n = 0; n < size; n++) {
        uint8_t difference = before[n] ^ after[n];
        crc = (crc >> 8) ^ table[0][(crc ^ difference) & 0xFF];
    }
    return times_zeros(crc, following);
}
