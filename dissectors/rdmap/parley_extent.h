/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tracks which octets of a DDP message have arrived. Senders SHOULD keep the order of MO or TO (RFC 5041 §5.3); then
 * there is only one run. Octets ahead of their turn are kept as ranges until the octets before them arrive. */
#ifndef PARLEY_EXTENT_H
#define PARLEY_EXTENT_H

#include <glib.h>

typedef struct parley_range {
  guint64 begin, end;
} parley_range;

/* Maximum number of ranges of an unordered message. */
enum { PARLEY_RANGES_MAX = 64 };

typedef struct parley_extent {
  gboolean open, last;
  gboolean start_unknown; /* its first segment may not have arrived first */
  gboolean after_gap;     /* the capture may lack segments of it: missing ones are not a fault */
  guint32 odd_frame;      /* frame of the first segment out of its turn; 0: none */
  parley_range run;
  guint32 ahead_count;
  parley_range* ahead; /* in order, adjacent neither to each other nor to the run; in file scope */
} parley_extent;

typedef enum {
  PARLEY_PLACED_IN_ORDER,
  PARLEY_PLACED_AHEAD,  /* correct if the missing octets arrive later */
  PARLEY_PLACED_WRONG,  /* repeated octets, octets beyond the last segment, or a second last segment */
  PARLEY_PLACED_UNKNOWN /* too many ranges */
} parley_placed;

void parley_extent_open(parley_extent* extent, guint64 at, gboolean start_unknown);
void parley_extent_close(parley_extent* extent);
parley_placed parley_extent_place(parley_extent* extent, guint64 at, guint64 length, gboolean last);
/* The next offset if segments arrive in order. */
guint64 parley_extent_due(const parley_extent* extent);
static inline gboolean parley_extent_whole(const parley_extent* extent) {
  return extent->open && extent->last && extent->ahead_count == 0;
}

#endif
