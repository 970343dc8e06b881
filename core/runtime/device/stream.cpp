#include "device/stream.hpp"

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace weft::device {

namespace {

const c10::impl::DeviceGuardImplInterface& guard() {
  return *c10::impl::getDeviceGuardImpl(current().place().type());
}

}  // namespace

Stream Stream::current_stream() {
  return Stream(guard().getStream(current().place()));
}

void Stream::make_current() const {
  if (!stream_) return;
  Event before;
  before.record();
  before.wait(*this);
  guard().exchangeStream(*stream_);
}

Stream Stream::new_stream() {
  return Stream(guard().getNewStream(current().place(), /*priority=*/0));
}

}  // namespace weft::device
