// Builds protobuf's descriptors of the services' messages.
#pragma once

namespace maxsim::service {

// Builds protobuf's descriptors of all messages. Call it before the first request: protobuf would build them at their
// first use, and if memory ran out then, every later use would read a null pointer.
void BuildMessageDescriptors();

}  // namespace maxsim::service
