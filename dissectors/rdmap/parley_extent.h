/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which octets of one DDP message have come. Senders SHOULD keep the order of MO or TO (RFC 5041 §5.3), and then one
 * run is all there is; what stands ahead of its turn is kept as ranges until what is missing before it came. */
#ifndef PARLEY_EXTENT_H
#define PARLEY_EXTENT_H

#include <glib.h>

typedef struct parley_range {
  guint64 begin, end;
} parley_range;

/* Of a message that is sent in no order at all. */
enum { PARLEY_RANGES_MAX = 64 };

typedef struct parley_extent {
  gboolean open, last;
  gboolean start_unknown; /* its first segment need not have been the first that came */
  gboolean after_gap;     /* the capture may lack segments of it: what is missing accuses nobody */
  guint32 odd_frame;      /* of the first one that was out of its turn; 0: none */
  parley_range run;
  guint32 ahead_count;
  parley_range* ahead; /* in order, touching neither each other nor the run; in file scope */
} parley_extent;

typedef enum {
  PARLEY_PLACED_IN_ORDER,
  PARLEY_PLACED_AHEAD,  /* nothing is wrong with it if the others come */
  PARLEY_PLACED_WRONG,  /* octets that came already, or stand beyond the last segment, or a second last one */
  PARLEY_PLACED_UNKNOWN /* too many ranges */
} parley_placed;

void parley_extent_open(parley_extent* extent, guint64 at, gboolean start_unknown);
void parley_extent_close(parley_extent* extent);
parley_placed parley_extent_place(parley_extent* extent, guint64 at, guint64 length, gboolean last);
/* The offset that is due next when segments come in order. */
guint64 parley_extent_due(const parley_extent* extent);
static inline gboolean parley_extent_whole(const parley_extent* extent) {
  return extent->open && extent->last && extent->ahead_count == 0;
}

#endif
