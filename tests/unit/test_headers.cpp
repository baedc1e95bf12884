// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Empty: a target that owns precompiled headers needs a file to compile.
