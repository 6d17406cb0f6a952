// Builds protobuf's descriptors of the services' messages.
#pragma once

namespace maxsim::service {

// Call it before the first request. protobuf would build the descriptors at their first use, and if memory ran out
// during that, every later use would read a null pointer.
void BuildMessageDescriptors();

}  // namespace maxsim::service
