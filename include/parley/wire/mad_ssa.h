/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: the distribution tree of subnet administration, in the application class 0x2C. The
 * encoding is Parley's own (docs/ssa.md); ibssa's attributes 0x1000 and 0x1001 of the same class are other ones.
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_SSA_H
#define PARLEY_WIRE_MAD_SSA_H

#define PARLEY_SSA_P_KEYS_MAX 32    /* in an SsaHello */
#define PARLEY_SSA_CHILDREN_MAX 12  /* in an SsaChildLost */
#define PARLEY_SSA_LEVEL_ANY 0xFFFF /* the master chooses the level */

/* X(name, bit, text): what a node can be in the tree. */
#define PARLEY_SSA_ROLES(X) \
  X(core, 1, "core") X(distribution, 2, "distribution") X(access, 4, "access") X(consumer, 8, "consumer")
/* X(name, bit, text): what a node says about its connections. */
#define PARLEY_SSA_NODE_FLAGS(X)   \
  X(has_parent, 1, "has parent")   \
  X(has_backup, 2, "has backup")   \
  X(parent_lost, 4, "parent lost") \
  X(backup_lost, 8, "backup lost") \
  X(not_ready, 16, "not ready")
/* X(name, status, text): why a request is refused, in the class's bits of the status (IBA §13.4.7). ibssa has denied. */
#define PARLEY_SSA_STATUSES(X)                                                         \
  X(not_ready, 0x0100, "the parent has no data yet; the answer says how long to wait") \
  X(full, 0x0200, "no room for a further member or child")                             \
  X(unknown_node, 0x0300, "the child has not hooked up")                               \
  X(not_master, 0x0400, "there is a newer master")                                     \
  X(denied, 0x0700, "the roles, the P_Keys or the parent are not permitted")

/* A version of the database: which master made it, and the how-manieth it is of that master. */
#define PARLEY_MAD_SSA_EPOCH(F, S, R) \
  F(incarnation, 0, 0, 32, 1, number) \
  F(counter, 4, 0, 32, 1, number)

/* Where a node takes connections. */
#define PARLEY_MAD_SSA_ENDPOINT(F, S, R) \
  F(gid, 0, 0, 128, 1, gid)              \
  F(node_guid, 16, 0, 64, 1, guid)       \
  F(lid, 24, 0, 16, 1, lid)              \
  F(p_key, 26, 0, 16, 1, hex)            \
  R(28, 0, 8)                            \
  F(qpn, 29, 0, 24, 1, number)           \
  F(sl, 32, 0, 4, 1, number)             \
  R(32, 4, 4)                            \
  R(33, 0, 2)                            \
  F(mtu, 33, 2, 6, 1, mtu)               \
  R(34, 0, 2)                            \
  F(rate, 34, 2, 6, 1, rate)             \
  R(35, 0, 8)                            \
  F(port, 36, 0, 16, 1, number)          \
  R(38, 0, 16)

/* A node asks for a place in the tree. The answer has a ticket, and when the parent is to be expected. */
#define PARLEY_MAD_SSA_HELLO(F, S, R)        \
  F(ssa_key, 0, 0, 64, 1, hex)               \
  S(epoch, 8, 1, SsaEpoch)                   \
  F(ticket, 16, 0, 64, 1, hex)               \
  F(port_gid, 24, 0, 128, 1, gid)            \
  F(node_guid, 40, 0, 64, 1, guid)           \
  F(parent_gid, 48, 0, 128, 1, gid)          \
  F(bad_parent_gid, 64, 0, 128, 1, gid)      \
  F(wait, 80, 0, 32, 1, milliseconds)        \
  F(roles, 84, 0, 8, 1, ssa_roles)           \
  F(node_flags, 85, 0, 8, 1, ssa_node_flags) \
  F(level, 86, 0, 16, 1, number)             \
  R(88, 0, 8)                                \
  F(qpn, 89, 0, 24, 1, number)               \
  F(port, 92, 0, 16, 1, number)              \
  F(p_key_count, 94, 0, 16, 1, number)       \
  F(p_key, 96, 0, 16, 32, hex)               \
  F(tree, 160, 0, 8, 32, text)

/* The master assigns parents, or asks for those that a node has. */
#define PARLEY_MAD_SSA_PARENT(F, S, R)       \
  F(ssa_key, 0, 0, 64, 1, hex)               \
  S(epoch, 8, 1, SsaEpoch)                   \
  F(ticket, 16, 0, 64, 1, hex)               \
  F(port_gid, 24, 0, 128, 1, gid)            \
  F(roles, 40, 0, 8, 1, ssa_roles)           \
  F(node_flags, 41, 0, 8, 1, ssa_node_flags) \
  F(level, 42, 0, 16, 1, number)             \
  F(wait, 44, 0, 32, 1, milliseconds)        \
  S(parent, 48, 1, SsaEndpoint)              \
  S(backup, 88, 1, SsaEndpoint)

/* A child announces its connection to its parent, which answers with its own end; heartbeats, and a parent's new epoch.
 * The answer has the interval of heartbeats; with the status not_ready, the time to wait. */
#define PARLEY_MAD_SSA_HOOKUP(F, S, R) \
  F(ssa_key, 0, 0, 64, 1, hex)         \
  S(epoch, 8, 1, SsaEpoch)             \
  F(ticket, 16, 0, 64, 1, hex)         \
  S(endpoint, 24, 1, SsaEndpoint)      \
  F(is_backup, 64, 0, 1, 1, flag)      \
  R(64, 1, 31)                         \
  F(heartbeat, 68, 0, 32, 1, milliseconds)

/* A node by its port. */
#define PARLEY_MAD_SSA_CHILD(F, S, R) F(gid, 0, 0, 128, 1, gid)

/* A parent tells the master which children it has lost. */
#define PARLEY_MAD_SSA_CHILD_LOST(F, S, R) \
  F(ssa_key, 0, 0, 64, 1, hex)             \
  S(epoch, 8, 1, SsaEpoch)                 \
  F(port_gid, 16, 0, 128, 1, gid)          \
  F(child_count, 32, 0, 16, 1, number)     \
  R(34, 0, 48)                             \
  S(child, 40, 12, SsaChild)

/* A node leaves the tree. */
#define PARLEY_MAD_SSA_LEAVE(F, S, R) \
  F(ssa_key, 0, 0, 64, 1, hex)        \
  S(epoch, 8, 1, SsaEpoch)            \
  F(ticket, 16, 0, 64, 1, hex)        \
  F(port_gid, 24, 0, 128, 1, gid)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_SSA_STRUCTURES(T)                                \
  T(SsaEpoch, 8, 0, "Parley", PARLEY_MAD_SSA_EPOCH)                 \
  T(SsaEndpoint, 40, 0, "Parley", PARLEY_MAD_SSA_ENDPOINT)          \
  T(SsaHello, 192, 0x1010, "Parley", PARLEY_MAD_SSA_HELLO)          \
  T(SsaParent, 128, 0x1011, "Parley", PARLEY_MAD_SSA_PARENT)        \
  T(SsaHookup, 72, 0x1012, "Parley", PARLEY_MAD_SSA_HOOKUP)         \
  T(SsaChild, 16, 0, "Parley", PARLEY_MAD_SSA_CHILD)                \
  T(SsaChildLost, 232, 0x1013, "Parley", PARLEY_MAD_SSA_CHILD_LOST) \
  T(SsaLeave, 40, 0x1014, "Parley", PARLEY_MAD_SSA_LEAVE)

#endif
