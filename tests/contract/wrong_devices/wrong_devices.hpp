// The simulated accelerator, but for one mistake, which the environment variable WEFT_TEST_MISTAKE names.
// tests/contract/device_test.cpp lists them.
#pragma once

#include <string_view>

#include "weft/device_kind.hpp"

namespace weft::test {

// Whether this is the mistake.
bool is(std::string_view mistake);

// Put what is wrong in place of what the simulated accelerator has registered with libtorch.
void spoil_memory();
void spoil_streams();
void spoil_operators();

// As the members of device::Kind.
c10::intrusive_ptr<c10d::Backend> connect_wrongly(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                  int size, std::chrono::milliseconds timeout,
                                                  const c10::intrusive_ptr<c10d::Backend>& host);
std::unique_ptr<device::GraphCapturer> make_wrong_capturer();

// Whether a collective was begun.
bool has_communicated();

}  // namespace weft::test
