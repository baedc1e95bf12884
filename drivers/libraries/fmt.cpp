// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The functions of fmt that are not inline, for libparley.so: a program for it needs no libfmt of one version.
#include <fmt/format-inl.h>

namespace fmt::detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace fmt::detail
