// Descriptors that ranks inherit from their launcher, named by a variable.
#pragma once

#include <string>

namespace weft::launch {

// Returns "FD:DEVICE:INODE" of an open descriptor, or "". The numbers tell our file from one that a program
// in between opened under the same descriptor.
std::string identity_of(int fd);

// Returns the descriptor that `variable` names as identity_of() does, or -1 if it is not that file any more.
int inherited_descriptor(const char* variable);

}  // namespace weft::launch
