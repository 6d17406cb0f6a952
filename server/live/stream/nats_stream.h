// A stream of NATS JetStream. Only the files nats_* of this folder know NATS.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/live/local/nats_options.h"
#include "server/live/stream/ordered_stream.h"

namespace maxsim::live {

// Returns the name of a collection's stream: PREFIX-NAME, where each dot in NAME is replaced by +, because a stream's
// name must not have dots.
std::string StreamNameOf(std::string_view prefix, std::string_view collection);
// Returns the pattern that the subjects of the stream's messages match: PREFIX.NAME.*, where each dot in NAME is
// replaced by +. In a message's subject, the slot of the document's id stands in place of the *.
std::string SubjectsOf(std::string_view prefix, std::string_view collection);

// Returns the urls without their passwords, for messages.
std::string WithoutSecrets(std::string_view url);

// Makes the stream object of a collection. Does not connect yet. OrderedStream::Open creates the stream on the server:
// on disk, with options.replicas copies, and without limits, so that only an operator removes messages.
std::unique_ptr<OrderedStream> MakeNatsStream(const NatsOptions& options, const std::string& collection);

}  // namespace maxsim::live
