/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MPA in the plugin: RFC 5044, RFC 6581, OFA 2007-10 Rtr. What the first pass finds is kept with the frame in which it
 * became whole, as a list of items; showing a packet, first pass or later, only walks that list. */
#ifndef PARLEY_MPA_H
#define PARLEY_MPA_H

#include "parley.h"
#include "parley_stream.h"
#include "parley_tcp.h"

typedef enum { PARLEY_NO, PARLEY_YES, PARLEY_UNKNOWN } parley_known;

/* ------------------------------------------------------------------ what a frame brought: items */

typedef enum {
  PARLEY_ITEM_STARTUP,
  PARLEY_ITEM_FPDU,
  PARLEY_ITEM_PART,
  PARLEY_ITEM_NOTE,
  PARLEY_ITEM_END
} parley_item_kind;

typedef enum {
  PARLEY_NOTE_BAD_LENGTH,  /* a ULPDU_Length that no FPDU can have; value: it */
  PARLEY_NOTE_LOST,        /* octets are missing, where the next FPDU begins is not known; value: octets */
  PARLEY_NOTE_FOUND,       /* FPDUs can be followed again */
  PARLEY_NOTE_EARLY,       /* the initiator sent octets before the Reply; value: octets */
  PARLEY_NOTE_NOT_STARTUP, /* octets that are not a startup frame where one is due */
  PARLEY_NOTE_STARTUP_CUT, /* octets of a startup frame are missing */
  PARLEY_NOTE_MARKERS,     /* the stream has markers, which nobody asked for */
  PARLEY_NOTE_NO_MARKERS,  /* it has none although they were asked for */
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
  guint32 known;  /* of these, at its head, in the capture */
  guint8* copy;   /* NULL: its octets are in the frame's own payload */
} parley_item;

typedef struct parley_fpdu {
  parley_item item;
  parley_pdu pdu;
  struct parley_fpdu* next_ahead;
  guint64 at;          /* stream position of its first octet */
  guint32 first_frame; /* that brought its first octet */
  guint8 crc;          /* parley_crc_state */
  guint8 markers;      /* a flag: its stream has them */
  guint8 rtr;          /* PARLEY_RTR_*, also of one that was not agreed */
  guint8 rtr_wrong;    /* an RTR was agreed, and this first FPDU is none of the agreed kinds */
  guint8 too_early;    /* the responder had received no FPDU yet */
  guint8 pad_not_zero;
  guint8 marker_wrong;
  guint8 no_rtr_frame;      /* the Rtr frame was agreed, and this came first */
  guint8 took_rtr_for_fpdu; /* the responder answers the Rtr frame with a Terminate */
  guint16 marker_ptr, marker_expected;
  guint32 marker_at; /* within the FPDU's octets */
} parley_fpdu;

/* What is to be told of a startup frame. */
typedef struct parley_remark {
  struct parley_remark* next;
  int severity;
  const char* text;
} parley_remark;

typedef struct parley_startup_item {
  parley_item item;
  parley_startup seen;
  guint8 is_rtr_frame; /* it came where the Rtr frame of 2007 is due */
  guint8 second;       /* its sender had sent its startup frame, and it was no reject */
  guint8 again;        /* there was a rejected Request on this TCP connection before */
  parley_remark* remarks;
} parley_startup_item;

/* Octets of an FPDU or startup frame that became whole in a later frame. */
typedef struct parley_part {
  parley_item item;
  struct parley_part* next; /* of the same FPDU */
  guint8 startup;
  guint32 whole_in; /* 0: never */
} parley_part;

/* What a FIN or RST left unfinished. */
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

/* An FPDU can be that long on the wire: 64768 octets, length, pad, CRC and their markers. No buffer is larger. */
#define PARLEY_FPDU_WIRE_MAX (68u << 10)
/* Octets that the initiator sent before the Reply was seen. */
#define PARLEY_EARLY_MAX (256u << 10)

struct parley_tcp;

typedef enum {
  PARLEY_PHASE_STARTUP,       /* a startup frame is due */
  PARLEY_PHASE_AFTER_REQUEST, /* octets are kept until the Reply is known */
  PARLEY_PHASE_RTR_OR_FPDU,
  PARLEY_PHASE_FPDUS,
  PARLEY_PHASE_OVER, /* not MPA any more, or cannot be followed */
} parley_phase;

struct parley_fpdu;

typedef struct parley_half {
  struct parley_tcp* tcp;
  guint8 side;
  guint8 phase;
  parley_stream stream;
  gboolean from_syn;   /* stream position 0 is the octet behind its SYN */
  guint64 base;        /* where the present set-up begins in the stream: behind what was rejected */
  guint64 startup_end; /* stream position behind the startup frame(s); 0: unknown */
  guint64 request_at;  /* stream position of the Request */
  guint64 request_end; /* the same as startup_end, without the Rtr frame of 2007 */
  /* FPDUs */
  guint8 crc, markers; /* parley_known */
  gboolean markers_guessed, crc_guessed;
  gboolean markers_settled; /* the stream begins with or without, as was told */
  gboolean zero_known;      /* of markers */
  guint64 zero;             /* stream position of FPDU position 0 */
  gboolean lost;            /* where the next FPDU begins is not known */
  gboolean trying;          /* what is in `pending` may be no FPDU */
  gboolean refuted;         /* what was found does not fit together */
  gboolean after_bad_crc;   /* so, because the CRC of the one before was wrong */
  guint8 unproven;          /* so many FPDUs more have to fit together before they are believed; see parley_fpdu.c */
  gboolean hole_in_kept;    /* octets are missing among those kept until the Reply */
  gboolean startup_kept;    /* what is pending begins like a startup frame, where an FPDU is due */
  guint8 kept_after_reply;
  gboolean kept_has_ack;
  guint32 kept_ack;    /* raw, of the last of these octets */
  guint32 early;       /* octets that came before the Reply */
  guint32 startup_due; /* octets that a startup frame with an impossible PD_Length still promises */
  gboolean gap;        /* octets are missing before the next FPDU */
  gboolean any_gap;
  /* Octets not yet walked: of a startup frame, before the Reply, or of one FPDU. Bounded by the constants above. */
  guint8* pending;
  guint32 pending_length, pending_room;
  guint32 pending_known; /* octets at its head without a hole */
  guint64 pending_at;    /* stream position */
  guint32 pending_frame;
  guint64 pending_peer; /* how much of the other stream the sender had received by then */
  parley_part* parts;   /* of the pending FPDU */
  guint64 fpdus_seen;
  /* FPDUs that were shown before the octets in front of them came, by position, each once; those that the walk has
   * passed are dropped at the next FPDU. At most those of held segments. `ahead_recent`: the one put in last. */
  struct parley_fpdu *ahead, *ahead_recent;
} parley_half;

typedef struct parley_tcp {
  parley_conn* conn; /* the present one: a second Request after a reject begins another */
  parley_half half[2];
  gboolean forced;                 /* Decode As: it is MPA because somebody says so */
  parley_tcp_segment* first_piece; /* of the Request, which waits for the connection to be known */
  parley_tcp_segment* second_half; /* of the Request; it came first and waits for the first */
  guint8 versions;                 /* DV and RV that plausible FPDUs have: 0 for the RDMA Consortium's */
  guint64 reply_heard;             /* of the initiator, by the acknowledgment of the last Reply; 0: unknown */
  gboolean reply_lost;
  gboolean request_lost; /* and perhaps another Request, which voids the one that is known */
  /* of the frame being dissected */
  guint64 heard; /* position up to which its sender had received; 0: nothing, or not known */
  packet_info* pinfo;
  tvbuff_t* tvb;
} parley_tcp;

static inline guint16 parley_be16(const guint8* at) { return (guint16)(at[0] << 8 | at[1]); }

static inline parley_half* parley_peer_of(parley_half* half) { return &half->tcp->half[1 - half->side]; }

/* Octets of the marker that an FPDU begins with, if it begins where one stands: RFC 5044 §4.3. */
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
/* Shows the whole FPDUs of a segment that waits for its turn. RFC 5044 §6 allows a receiver to place such FPDUs, so
 * they are no secret before the hole is filled, which may be never. */
void parley_fpdus_peek(parley_half* half, const parley_tcp_segment* segment);
void parley_fpdus_hole(parley_half* half, guint32 octets);
/* Whether octets in the middle of a connection begin with an FPDU, markers aside, whose CRC is right. */
gboolean parley_looks_like_fpdu(const guint8* octets, guint32 length);
void parley_pending_drop(parley_half* half);
void parley_parts_whole(parley_half* half);
void parley_pending_add(parley_half* half, const parley_tcp_segment* part, guint32 room);

/* parley_mpa.c, parley_fpdu_meaning.c: first pass */
parley_tcp* parley_tcp_new(void);
void parley_mpa_midstream(parley_tcp* tcp);
/* Whether octets of this connection still mean something. */
gboolean parley_mpa_follows(const parley_tcp* tcp);
/* `tvb` is any of the frame; `side` is who sent. */
void parley_mpa_segment(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* tvb, guint side,
                        const parley_tcp_segment* segment, guint16 flags);
/* Connections of the file: the number of a new one, and how many there are. */
guint32 parley_conn_number(void);
guint32 parley_conn_count(void);
void parley_conn_forget(void);
void parley_mpa_fpdu(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                     guint32 first_frame, guint64 peer_received, gboolean in_payload, parley_crc_state crc);
void parley_mpa_note(parley_half* half, parley_note note, guint32 value, guint32 seq);
/* A note of a fault of this side, for which a Terminate is due. */
void parley_mpa_wrong(parley_half* half, parley_note note, guint32 value, guint64 at);
/* Shows an FPDU before its turn, unless one was shown at its place. */
void parley_mpa_show_ahead(parley_half* half, const guint8* wire, guint32 octets, guint64 at, parley_crc_state crc);
parley_item* parley_item_add(parley_half* half, parley_item_kind kind, gsize size);
parley_frame* parley_frame_of(packet_info* pinfo);

/* parley_form.c: the form of startup frames */
guint parley_key_of(const guint8* key);
/* All keys begin so, and a misspelt one is still worth showing. */
gboolean parley_begins_like_key(const guint8* octets, guint32 length);
/* By PD_Length, of a whole header. */
guint32 parley_promised_size(const guint8* octets);
/* Octets to wait for. */
guint32 parley_startup_size(const guint8* octets, guint32 length);
/* Where a startup frame is due. */
gboolean parley_may_be_startup(const parley_half* half, const guint8* octets, guint32 length);
/* Where an FPDU is due. */
gboolean parley_begins_like_startup(const guint8* octets, guint32 length);
gboolean parley_whole_startup(const guint8* octets, guint32 length);
/* `known`: so many of the octets, a whole header at least, are in the capture. */
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

/* parley_end.c: the side's FIN, behind all that it sent, or RST. */
void parley_mpa_ended(parley_half* half, gboolean reset);
void parley_end_say(parley_half* half, int severity, const char* format, ...) G_GNUC_PRINTF(3, 4);

/* parley_react.c: of the initiator's first FPDU, and of a FIN or RST. */
void parley_after_reply(parley_pdu* pdu);
void parley_set_up_terminated(parley_pdu* pdu, guint8 code);
/* What to say, once, when it is known that no Rtr frame comes; NULL: nothing. */
const char* parley_rtr_frame_unproven(parley_conn* c);
void parley_react_at_end(parley_half* half, gboolean reset);

/* parley_startup.c: what startup frames agree on, and what is wrong with them; parley_show.c: trees and columns */
void parley_agree(parley_tcp* tcp);
void parley_startup_say(parley_startup_item* item, int severity, const char* format, ...) G_GNUC_PRINTF(3, 4);
/* On the first pass, when the frame and what is known of the other one stand in the connection. */
void parley_startup_judge(parley_startup_item* item);
/* RFC 5044 §7.1.2: whether nobody may go on after this Reply. */
gboolean parley_reply_invalid(const parley_startup* r);
/* Whether the frame brought more than remarks on the connection's end, which leave the columns to TCP. */
gboolean parley_fills_columns(packet_info* pinfo);
/* Shows what the frame brought of this connection; false if nothing. `seq` is that of the first octet of `tvb`. */
gboolean parley_show(tvbuff_t* tvb, guint32 seq, packet_info* pinfo, proto_tree* top, const parley_tcp* tcp);
/* parley_private.c: the ULP's part of the private data. */
void parley_private_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const parley_conn* conn, int from);

void parley_mpa_register(void);
void parley_private_register(void);
void parley_stat_register(void);

/* Preferences; they hold where the startup frames are not in the capture. */
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
