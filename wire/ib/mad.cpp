// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/mad.hpp"

#include "base/bytes_io.hpp"

namespace parley::wire::ib {

Result<MadHeader> MadHeader::parse(ConstBytes in) {
  Reader r(in);
  MadHeader out;
  out.base_version = r.u8();
  out.mgmt_class = r.u8();
  out.class_version = r.u8();
  out.method = r.u8();
  out.status = r.be16();
  out.class_specific = r.be16();
  out.transaction_id = r.be64();
  out.attribute_id = r.be16();
  out.reserved = r.be16();
  out.attribute_modifier = r.be32();
  if (!r.ok()) return fail(Errc::truncated);
  return out;
}

void MadHeader::emit(MutBytes out) const {
  Writer w(out);
  w.u8(base_version);
  w.u8(mgmt_class);
  w.u8(class_version);
  w.u8(method);
  w.be16(status);
  w.be16(class_specific);
  w.be64(transaction_id);
  w.be16(attribute_id);
  w.be16(reserved);
  w.be32(attribute_modifier);
}

}  // namespace parley::wire::ib
