/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Codes of the InfiniBand architecture that several packet types use: path MTUs, rates, RNR timers, credits. */
#ifndef PARLEY_WIRE_IB_CODES_H
#define PARLEY_WIRE_IB_CODES_H

/* X(name, code, octets as text): IBA §12.6.5, §15.2.5.16. The octets are 128 << code. */
#define PARLEY_IB_MTUS(X) \
  X(m256, 1, "256") X(m512, 2, "512") X(m1024, 3, "1024") X(m2048, 4, "2048") X(m4096, 5, "4096")

/* X(name, code, text): rates in Gb/s as in IBA §15.2.5.16: lanes times the signalling rate. Rates above 10 Gb/s per lane are
 * those after coding. */
#define PARLEY_IB_RATES(X) \
  X(r2_5, 2, "2.5 Gb/s")   \
  X(r10, 3, "10 Gb/s")     \
  X(r30, 4, "30 Gb/s")     \
  X(r5, 5, "5 Gb/s")       \
  X(r20, 6, "20 Gb/s")     \
  X(r40, 7, "40 Gb/s")     \
  X(r60, 8, "60 Gb/s")     \
  X(r80, 9, "80 Gb/s")     \
  X(r120, 10, "120 Gb/s")  \
  X(r14, 11, "14 Gb/s")    \
  X(r56, 12, "56 Gb/s")    \
  X(r112, 13, "112 Gb/s")  \
  X(r168, 14, "168 Gb/s")  \
  X(r25, 15, "25 Gb/s")    \
  X(r100, 16, "100 Gb/s")  \
  X(r200, 17, "200 Gb/s")  \
  X(r300, 18, "300 Gb/s")  \
  X(r28, 19, "28 Gb/s")    \
  X(r50, 20, "50 Gb/s")    \
  X(r400, 21, "400 Gb/s")  \
  X(r600, 22, "600 Gb/s")  \
  X(r800, 23, "800 Gb/s")  \
  X(r1200, 24, "1200 Gb/s")

/* RNR NAK timers, indexed by code, in units of 10 us: IBA §9.7.5.2.8, table 45. */
#define PARLEY_IB_RNR_TIMERS                                                                                       \
  65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, \
      6144, 8192, 12288, 16384, 24576, 32768, 49152

/* End-to-end credits, indexed by code, 0 to 30: IBA §9.7.7.2, table 43. */
#define PARLEY_IB_CREDITS                                                                                            \
  0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, \
      8192, 12288, 16384, 24576, 32768

#endif
