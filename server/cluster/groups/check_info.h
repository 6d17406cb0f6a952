// Checks what a server says about itself and its collections before a router relies on it. Pure: no network, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "maxsim/v1/admin.pb.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/answer_fault.h"

namespace maxsim::cluster {

// The maximum size of an answer to GetInfo. By default a router requests one from every replica every second, and
// keeps the last. A collection takes about 500 bytes.
inline constexpr size_t kMaxInfoBytes = size_t{16} << 20;

// Refuses the answer of a router, because routers that ask each other would pass a request around for ever. Checks
// names, slots and layouts and, for loaded collections, dimension, storage type and kind of ids.
std::optional<AnswerFault> CheckInfoAnswer(const v1::GetInfoResponse& answer);

// Checks that the answer to a change of collection `name` is about that collection.
std::optional<AnswerFault> CheckChangedCollection(const std::string& name, const v1::CollectionInfo& answered);

// Checks that a snapshot's sequence is one that a log can have, and at least `least`, the sequence that the replica has
// already reported.
std::optional<AnswerFault> CheckSnapshotAnswer(uint64_t least, const v1::SnapshotCollectionResponse& answer);

// Checks that the layout has the request's owners and a later revision than the expected one.
std::optional<AnswerFault> CheckLayoutAnswer(const v1::SetLayoutRequest& request, const v1::SetLayoutResponse& answer);

}  // namespace maxsim::cluster
