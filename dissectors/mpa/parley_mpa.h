/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MPA in the plugin: RFC 5044, RFC 6581, OFA 2007-10 Rtr. The first pass stores its results as a list of items with the
 * frame that completes them. Showing a packet, in the first pass or later, only walks that list. */
#ifndef PARLEY_MPA_H
#define PARLEY_MPA_H

#include "parley.h"
#include "parley_stream.h"
#include "parley_tcp.h"

typedef enum { PARLEY_NO, PARLEY_YES, PARLEY_UNKNOWN } parley_known;

/* ------------------------------------------------------------------ items: the results for a frame */

typedef enum {
  PARLEY_ITEM_STARTUP,
  PARLEY_ITEM_FPDU,
  PARLEY_ITEM_PART,
  PARLEY_ITEM_NOTE,
  PARLEY_ITEM_END
} parley_item_kind;

typedef enum {
  PARLEY_NOTE_BAD_LENGTH,  /* a ULPDU_Length that no FPDU can have; value: that length */
  PARLEY_NOTE_LOST,        /* octets are missing and the beginning of the next FPDU is unknown; value: octets */
  PARLEY_NOTE_FOUND,       /* FPDUs can be followed again */
  PARLEY_NOTE_EARLY,       /* the initiator sent octets before the Reply; value: octets */
  PARLEY_NOTE_NOT_STARTUP, /* other octets in the place of a startup frame */
  PARLEY_NOTE_STARTUP_CUT, /* octets of a startup frame are missing */
  PARLEY_NOTE_MARKERS,     /* the stream has markers that its receiver did not request */
  PARLEY_NOTE_NO_MARKERS,  /* it has none although its receiver requested them */
  PARLEY_NOTE_MARKER_LEFT_OUT,
} parley_note;

typedef enum { PARLEY_CRC_OFF, PARLEY_CRC_GOOD, PARLEY_CRC_BAD, PARLEY_CRC_NOT_SEEN } parley_crc_state;

typedef struct parley_item {
  struct parley_item* next;
  parley_conn* conn;
  guint8 kind; /* parley_item_kind */
  guint8 from;
  guint8 note;
  guint32 value;
  guint32 frame;
  guint32 seq;    /* raw, of its first octet */
  guint32 octets; /* on the wire */
  guint32 known;  /* how many of these, from the first on, are in the capture */
  guint8* copy;   /* NULL: its octets are in the frame's own payload */
} parley_item;

typedef struct parley_fpdu {
  parley_item item;
  parley_pdu pdu;
  struct parley_fpdu* next_ahead;
  guint64 at;          /* stream position of its first octet */
  guint32 first_frame; /* the frame with its first octet */
  guint8 crc;          /* parley_crc_state */
  guint8 markers;      /* flag: its stream has markers */
  guint8 rtr;          /* PARLEY_RTR_*, even if it was not agreed */
  guint8 rtr_wrong;    /* an RTR was agreed, and this first FPDU is not of an agreed kind */
  guint8 too_early;    /* the responder had received no FPDU yet */
  guint8 pad_not_zero;
  guint8 marker_wrong;
  guint8 no_rtr_frame;      /* the Rtr frame was agreed, but this FPDU came first */
  guint8 took_rtr_for_fpdu; /* the responder answers the Rtr frame with a Terminate */
  guint16 marker_ptr, marker_expected;
  guint32 marker_at; /* within the FPDU's octets */
} parley_fpdu;

/* A remark on a startup frame. */
typedef struct parley_remark {
  struct parley_remark* next;
  int severity;
  const char* text;
} parley_remark;

typedef struct parley_startup_item {
  parley_item item;
  parley_startup seen;
  guint8 is_rtr_frame; /* it is in the place of the Rtr frame of 2007 */
  guint8 second;       /* its sender had already sent its startup frame, and that was not a reject */
  guint8 again;        /* an earlier Request on this TCP connection was rejected */
  parley_remark* remarks;
} parley_startup_item;

/* Octets of an FPDU or startup frame that a later frame completes. */
typedef struct parley_part {
  parley_item item;
  struct parley_part* next; /* of the same FPDU */
  guint8 startup;
  guint32 whole_in; /* 0: never */
} parley_part;

/* A remark on something that a FIN or RST left unfinished. */
typedef struct parley_end {
  parley_item item;
  int severity;
  const char* text;
} parley_end;

enum { PARLEY_KEY_REQ, PARLEY_KEY_REP, PARLEY_KEY_RTR, PARLEY_KEY_RTR_HEX, PARLEY_KEY_OTHER };

typedef struct parley_frame {
  parley_item *first, *last;
} parley_frame;

/* ------------------------------------------------------------------ one direction's FPDUs */

/* Maximum size of an FPDU on the wire: 64768 octets, length, pad, CRC and their markers. No buffer is larger. */
#define PARLEY_FPDU_WIRE_MAX (68u << 10)
/* Octets that the initiator sent before the Reply was seen. */
#define PARLEY_EARLY_MAX (256u << 10)

struct parley_tcp;

typedef enum {
  PARLEY_PHASE_STARTUP,       /* a startup frame is due */
  PARLEY_PHASE_AFTER_REQUEST, /* octets are kept until the Reply is known */
  PARLEY_PHASE_RTR_OR_FPDU,
  PARLEY_PHASE_FPDUS,
  PARLEY_PHASE_OVER, /* no longer MPA, or cannot be followed */
} parley_phase;

struct parley_fpdu;

typedef struct parley_half {
  struct parley_tcp* tcp;
  guint8 side;
  guint8 phase;
  parley_stream stream;
  gboolean from_syn;   /* stream position 0 is the octet behind its SYN */
  guint64 base;        /* stream position where the present set-up begins, behind rejected ones */
  guint64 startup_end; /* stream position behind the startup frame(s); 0: unknown */
  guint64 request_at;  /* stream position of the Request */
  guint64 request_end; /* the same as startup_end, without the Rtr frame of 2007 */
  /* FPDUs */
  guint8 crc, markers; /* parley_known */
  gboolean markers_guessed, crc_guessed;
  gboolean markers_settled; /* it is decided whether the stream begins with markers */
  gboolean zero_known;      /* `zero` is known */
  guint64 zero;             /* stream position of FPDU position 0, from which markers are counted */
  gboolean lost;            /* the beginning of the next FPDU is unknown */
  gboolean trying;          /* the octets in `pending` may not be an FPDU */
  gboolean refuted;         /* the FPDUs that were found do not fit together */
  gboolean after_bad_crc;   /* `trying` is set because the CRC of the previous FPDU was wrong */
  guint8 unproven;          /* how many more FPDUs must fit together before they are trusted; see parley_fpdu.c */
  gboolean hole_in_kept;    /* octets are missing among those kept until the Reply */
  gboolean startup_kept;    /* the pending octets begin like a startup frame, in the place of an FPDU */
  guint8 kept_after_reply;
  gboolean kept_has_ack;
  guint32 kept_ack;    /* raw, of the last of these octets */
  guint32 early;       /* octets that came before the Reply */
  guint32 startup_due; /* octets that are still due from a startup frame with an impossible PD_Length */
  gboolean gap;        /* octets are missing before the next FPDU */
  gboolean any_gap;
  /* Octets that are not processed yet: of a startup frame, of one FPDU, or those before the Reply. Bounded by the
   * constants above. */
  guint8* pending;
  guint32 pending_length, pending_room;
  guint32 pending_known; /* octets at its head without a hole */
  guint64 pending_at;    /* stream position */
  guint32 pending_frame;
  guint64 pending_peer; /* position up to which their sender had received the other stream */
  parley_part* parts;   /* of the pending FPDU */
  guint64 fpdus_seen;
  /* FPDUs that were shown before the octets in front of them arrived, by position, each once. The next FPDU drops those
   * that the walk has passed. At most those of held segments. `ahead_recent`: the FPDU that was inserted last. */
  struct parley_fpdu *ahead, *ahead_recent;
} parley_half;

typedef struct parley_tcp {
  parley_conn* conn; /* the present one; a second Request after a reject begins another one */
  parley_half half[2];
  gboolean forced;                 /* the user selected MPA with Decode As */
  parley_tcp_segment* first_piece; /* of the Request, from before the connection was recognised */
  parley_tcp_segment* second_half; /* of the Request, which arrived before the first half */
  guint8 versions;                 /* DV and RV that plausible FPDUs have: 0 for the RDMA Consortium's */
  guint64 reply_heard;             /* of the initiator, by the acknowledgment of the last Reply; 0: unknown */
  gboolean reply_lost;
  gboolean request_lost; /* and the capture may lack another Request, which replaces the known one */
  /* of the frame being dissected */
  guint64 heard; /* position up to which its sender had received; 0: nothing, or unknown */
  packet_info* pinfo;
  tvbuff_t* tvb;
} parley_tcp;

static inline guint16 parley_be16(const guint8* at) { return (guint16)(at[0] << 8 | at[1]); }

static inline parley_half* parley_peer_of(parley_half* half) { return &half->tcp->half[1 - half->side]; }

/* Octets of the marker with which an FPDU begins, if there is one at its position: RFC 5044 §4.3. */
static inline guint32 parley_lead_at(gboolean markers, guint64 position) {
  return markers && position % PARLEY_MPA_MARKER_INTERVAL == 0 ? PARLEY_MPA_MARKER_LEN : 0;
}

static inline guint32 parley_lead_of(const parley_fpdu* f) { return parley_lead_at(f->markers, f->pdu.position); }

/* parley_markers.c */
enum { PARLEY_NO_PHASE = PARLEY_MPA_MARKER_INTERVAL };
guint32 parley_to_marker(guint64 position);
guint32 parley_find_phase(guint8 crc, guint8 versions, const guint8* octets, guint32 length, gboolean sure);
gboolean parley_take_phase(parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean sure);
guint32 parley_settle_markers(parley_half* half, const guint8* octets, guint32 length, guint64 at);
guint32 parley_lacks_marker(const parley_half* half, const guint8* octets, guint32 length, guint64 at, guint32 need);
guint32 parley_lacks_lead(const parley_half* half, const guint8* octets, guint32 length, guint64 at, gboolean* lacks);
parley_crc_state parley_crc_state_of(const guint8* wire, guint32 octets);
gboolean parley_plausible_at(const parley_half* half, const guint8* octets, guint32 length, guint64 at);
guint32 parley_wire_size(guint64 position, guint32 ulpdu_length, gboolean markers);
guint32 parley_without_markers(const guint8* wire, guint32 length, guint64 position, guint8* out);

/* parley_fpdu.c */
gboolean parley_plausible(const guint8* ulpdu, guint32 octets, guint32 ulpdu_length, guint8 versions);
void parley_fpdus_begin(parley_half* half, parley_known crc, parley_known markers, guint64 zero);
void parley_fpdus_add(parley_half* half, const parley_tcp_segment* part);
/* Shows the complete FPDUs of a held segment. RFC 5044 §6 allows a receiver to place such FPDUs, so they may be shown
 * before the hole is filled, which may never happen. */
void parley_fpdus_peek(parley_half* half, const parley_tcp_segment* segment);
void parley_fpdus_hole(parley_half* half, guint32 octets);
/* Whether octets in the middle of a connection begin with an FPDU with a right CRC, possibly after a marker. */
gboolean parley_looks_like_fpdu(const guint8* octets, guint32 length);
void parley_pending_drop(parley_half* half);
void parley_parts_whole(parley_half* half);
void parley_pending_add(parley_half* half, const parley_tcp_segment* part, guint32 room);

/* parley_mpa.c, parley_fpdu_meaning.c: first pass */
parley_tcp* parley_tcp_new(void);
void parley_mpa_midstream(parley_tcp* tcp);
/* Whether this connection's octets can still be interpreted. */
gboolean parley_mpa_follows(const parley_tcp* tcp);
/* `tvb` is any tvbuff of the frame; `side` is the sender. */
void parley_mpa_segment(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* tvb, guint side,
                        const parley_tcp_segment* segment, guint16 flags);
/* Connections of the file: the number for a new one, and their count. */
guint32 parley_conn_number(void);
guint32 parley_conn_count(void);
void parley_conn_forget(void);
void parley_mpa_fpdu(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                     guint32 first_frame, guint64 peer_received, gboolean in_payload, parley_crc_state crc);
void parley_mpa_note(parley_half* half, parley_note note, guint32 value, guint32 seq);
/* Adds a note about a fault of this side, for which a Terminate is due. */
void parley_mpa_wrong(parley_half* half, parley_note note, guint32 value, guint64 at);
/* Shows an FPDU before its turn, unless one was already shown at its position. */
void parley_mpa_show_ahead(parley_half* half, const guint8* wire, guint32 octets, guint64 at, parley_crc_state crc);
parley_item* parley_item_add(parley_half* half, parley_item_kind kind, gsize size);
parley_frame* parley_frame_of(packet_info* pinfo);

/* parley_form.c: the form of startup frames */
guint parley_key_of(const guint8* key);
/* Whether octets begin as all keys do. A misspelt key is shown, too. */
gboolean parley_begins_like_key(const guint8* octets, guint32 length);
/* The size that PD_Length announces; needs a whole header. */
guint32 parley_promised_size(const guint8* octets);
/* Octets to wait for. */
guint32 parley_startup_size(const guint8* octets, guint32 length);
/* Whether octets in the place of a startup frame may be one. */
gboolean parley_may_be_startup(const parley_half* half, const guint8* octets, guint32 length);
/* Whether octets in the place of an FPDU begin like a startup frame. */
gboolean parley_begins_like_startup(const guint8* octets, guint32 length);
gboolean parley_whole_startup(const guint8* octets, guint32 length);
/* `known`: how many of the octets are in the capture; at least a whole header. */
void parley_startup_read(parley_half* half, const guint8* octets, guint32 known, parley_startup* seen);

/* parley_setup.c: startup frames, on the first pass */
void parley_startup_add(parley_half* half, parley_tcp_segment* part);
void parley_startup_broken_off(parley_half* half);
gboolean parley_startup_again(parley_half* half, parley_tcp_segment* part);
void parley_startup_announced(parley_half* half, parley_tcp_segment* part);
guint32 parley_startup_hole(parley_half* half, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by);
void parley_rtr_or_fpdu(parley_half* half);
void parley_initiator_goes_on(parley_half* half, const parley_tcp_segment* part);
void parley_request_after_reply(parley_half* half, const parley_tcp_segment* segment);
void parley_reply_is_lost(parley_tcp* tcp);

/* parley_end.c: the side's FIN, behind all its octets, or RST. */
void parley_mpa_ended(parley_half* half, gboolean reset);
void parley_end_say(parley_half* half, int severity, const char* format, ...) G_GNUC_PRINTF(3, 4);

/* parley_react.c: reactions at the initiator's first FPDU, and at a FIN or RST. */
void parley_after_reply(parley_pdu* pdu);
void parley_set_up_terminated(parley_pdu* pdu, guint8 code);
/* The text to report, once, when it is known that no Rtr frame will come; NULL: none. */
const char* parley_rtr_frame_unproven(parley_conn* c);
void parley_react_at_end(parley_half* half, gboolean reset);

/* parley_startup.c: the agreement of startup frames, and their faults; parley_show.c: trees and columns */
void parley_agree(parley_tcp* tcp);
void parley_startup_say(parley_startup_item* item, int severity, const char* format, ...) G_GNUC_PRINTF(3, 4);
/* First pass only. The connection must already have the frame and what is known of the other one. */
void parley_startup_judge(parley_startup_item* item);
/* RFC 5044 §7.1.2: whether neither side may go on after this Reply. */
gboolean parley_reply_invalid(const parley_startup* r);
/* Whether the frame has more than remarks on the connection's end. With only these, TCP fills the columns. */
gboolean parley_fills_columns(packet_info* pinfo);
/* Shows the frame's items of this connection; false if there are none. `seq` is that of the first octet of `tvb`. */
gboolean parley_show(tvbuff_t* tvb, guint32 seq, packet_info* pinfo, proto_tree* top, const parley_tcp* tcp);
/* parley_private.c: the ULP's part of the private data. */
void parley_private_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const parley_conn* conn, int from);

void parley_mpa_register(void);
void parley_private_register(void);
void parley_stat_register(void);

/* Preferences for connections whose startup frames are not in the capture. */
enum { PARLEY_ROLE_AUTO, PARLEY_ROLE_LOW_PORT, PARLEY_ROLE_HIGH_PORT };
enum {
  PARLEY_MARKERS_AUTO,
  PARLEY_MARKERS_NONE,
  PARLEY_MARKERS_BOTH,
  PARLEY_MARKERS_TO_RESPONDER,
  PARLEY_MARKERS_TO_INITIATOR
};
enum { PARLEY_CRC_AUTO, PARLEY_CRC_ON, PARLEY_CRC_NONE };
typedef struct parley_preferences {
  gint role, markers, crc;
  parley_bool heuristic_fpdu;
} parley_preferences;
extern parley_preferences parley_prefs;

#endif
