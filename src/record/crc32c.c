/*
 * crc32c.c - see crc32c.h.
 *
 * A CRC is a remainder modulo a polynomial, so the CRC of two neighbouring pieces is that of the
 * first times x^(8 * size of the second), plus that of the second. This one fact serves twice:
 * crc32c_combine() is it, and the fast loop cuts its input into three lanes of equal length, which
 * the processor sums up at the same time (an instruction takes three cycles, but one may start
 * each cycle), and joins them so.
 *
 * Polynomials are reflected: bit 31 of a uint32_t is the coefficient of x^0. The hardware product
 * of two of them (carry-less multiplication, then the CRC instruction as reduction) comes out as
 * a*b*x^33; powers are therefore kept as x^(n-33) when it is used, so that the factor cancels.
 */
#include "record/crc32c.h"

#include <stdbool.h>
#include <string.h>

#include "util/bytes.h"

#if defined(__x86_64__)
#define HAVE_X86 1
#include <nmmintrin.h>
#include <wmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#define HAVE_ARM 1
#include <sys/auxv.h>
#endif

#define POLYNOMIAL 0x82f63b78u

static uint32_t bytes_table[8][256]; /* the CRC of a byte that has 0 to 7 zero bytes behind it */
static uint32_t power_table[4][256]; /* [d][v]: x^(8 * v * 256^d), in the form of `multiply` */

typedef uint32_t crc_fn(uint32_t crc, const uint8_t *p, size_t size);
typedef uint32_t multiply_fn(uint32_t a, uint32_t power);

static crc_fn first_call;
static crc_fn *run = first_call;
static multiply_fn *multiply;
static const char *implementation = "software";

/* a * b mod P, bit by bit. */
static uint32_t multiply_software(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) { /* from x^0 on */
        if (a & 0x80000000u)
            product ^= b;
        b = b & 1 ? (b >> 1) ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* x^(8 * size) in the form of `multiply`. */
static uint32_t power_of(size_t size, multiply_fn *times)
{
    if (size >= INT32_MAX)
        size %= INT32_MAX; /* x^(2^31 - 1) is 1 modulo this polynomial */
    uint32_t power = power_table[0][size & 255];
    for (int digit = 1; size >>= 8; digit++)
        if (size & 255)
            power = times(power, power_table[digit][size & 255]);
    return power;
}

static uint32_t run_software(uint32_t crc, const uint8_t *p, size_t size)
{
    crc = ~crc;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        word ^= crc;
        crc = bytes_table[7][word & 255] ^ bytes_table[6][word >> 8 & 255] ^
              bytes_table[5][word >> 16 & 255] ^ bytes_table[4][word >> 24 & 255] ^
              bytes_table[3][word >> 32 & 255] ^ bytes_table[2][word >> 40 & 255] ^
              bytes_table[1][word >> 48 & 255] ^ bytes_table[0][word >> 56];
    }
    for (; size; p++, size--)
        crc = bytes_table[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return ~crc;
}

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

#ifdef HAVE_X86

#define LANES_FROM 192 /* below this, joining lanes costs more than it saves */

__attribute__((target("sse4.2,pclmul"))) static uint32_t multiply_x86(uint32_t a, uint32_t b)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t run_x86(uint32_t crc, const uint8_t *p,
                                                                 size_t size)
{
    uint64_t c0 = (uint32_t)~crc;
    if (size >= LANES_FROM) {
        size_t lane = size / 24 * 8;
        uint64_t c1 = 0, c2 = 0;
        const uint8_t *stop = p + lane;
        for (; p < stop; p += 8) {
            c0 = _mm_crc32_u64(c0, load64(p));
            c1 = _mm_crc32_u64(c1, load64(p + lane));
            c2 = _mm_crc32_u64(c2, load64(p + 2 * lane));
        }
        uint32_t power = power_of(lane, multiply_x86);
        c0 = multiply_x86((uint32_t)c0, power) ^ c1;
        c0 = multiply_x86((uint32_t)c0, power) ^ c2;
        p += 2 * lane;
        size -= 3 * lane;
    }
    for (; size >= 8; p += 8, size -= 8)
        c0 = _mm_crc32_u64(c0, load64(p));
    for (; size; p++, size--)
        c0 = _mm_crc32_u8((uint32_t)c0, *p);
    return ~(uint32_t)c0;
}

static bool choose_hardware(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return false;
    run = run_x86;
    multiply = multiply_x86;
    implementation = "sse4.2";
    return true;
}

#elif defined(HAVE_ARM)

#define LANES_FROM 2048 /* the join is in software here */

/* In assembly, since compilers do not agree on how a single function asks for the extension. */
static inline uint32_t crc_of_64(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t crc_of_8(uint32_t crc, uint8_t byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)byte));
    return crc;
}

static uint32_t run_arm(uint32_t crc, const uint8_t *p, size_t size)
{
    uint32_t c0 = ~crc;
    if (size >= LANES_FROM) {
        size_t lane = size / 24 * 8;
        uint32_t c1 = 0, c2 = 0;
        const uint8_t *stop = p + lane;
        for (; p < stop; p += 8) {
            c0 = crc_of_64(c0, load64(p));
            c1 = crc_of_64(c1, load64(p + lane));
            c2 = crc_of_64(c2, load64(p + 2 * lane));
        }
        uint32_t power = power_of(lane, multiply_software);
        c0 = multiply_software(c0, power) ^ c1;
        c0 = multiply_software(c0, power) ^ c2;
        p += 2 * lane;
        size -= 3 * lane;
    }
    for (; size >= 8; p += 8, size -= 8)
        c0 = crc_of_64(c0, load64(p));
    for (; size; p++, size--)
        c0 = crc_of_8(c0, *p);
    return ~c0;
}

static bool choose_hardware(void)
{
    if (!(getauxval(AT_HWCAP) & 1u << 7)) /* HWCAP_CRC32 */
        return false;
    run = run_arm;
    implementation = "armv8";
    return false; /* powers stay plain: the product is in software */
}

#else

static bool choose_hardware(void)
{
    return false;
}

#endif

static void fill_tables(bool shifted_powers)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ POLYNOMIAL : crc >> 1;
        bytes_table[0][byte] = crc;
    }
    for (int zeros = 1; zeros < 8; zeros++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = bytes_table[zeros - 1][byte];
            bytes_table[zeros][byte] = bytes_table[0][crc & 255] ^ (crc >> 8);
        }
    uint32_t one = 0x80000000u; /* x^0, or x^-33 */
    for (int i = 0; shifted_powers && i < 33; i++)
        one = one & 0x80000000u ? ((one ^ POLYNOMIAL) << 1) | 1 : one << 1;
    uint32_t step = 0x00800000u; /* x^8, plain: x^(8 * 256^digit) */
    for (int digit = 0; digit < 4; digit++) {
        power_table[digit][0] = one;
        for (int value = 1; value < 256; value++)
            power_table[digit][value] = multiply_software(power_table[digit][value - 1], step);
        for (int i = 0; i < 8; i++)
            step = multiply_software(step, step);
    }
}

__attribute__((constructor)) static void set_up(void)
{
    multiply = multiply_software;
    fill_tables(choose_hardware());
    if (run == first_call)
        run = run_software;
}

static uint32_t first_call(uint32_t crc, const uint8_t *p, size_t size)
{
    set_up(); /* another constructor came before ours */
    return run(crc, p, size);
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size)
{
    return run(crc, data, size);
}

uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, size_t size2)
{
    return multiply(crc1, power_of(size2, multiply)) ^ crc2;
}

uint32_t crc32c_software(uint32_t crc, const void *data, size_t size)
{
    return run_software(crc, data, size);
}

const char *crc32c_implementation(void)
{
    return implementation;
}
