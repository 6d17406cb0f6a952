// Shows collections and devices as tables and as JSON.
#pragma once

#include <string>

#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

std::string StateName(v1::CollectionState state);  // "ready"
std::string StorageName(v1::DataType type);        // "f16"
std::string IdTypeName(v1::IdType type);           // "string"

Json ToJson(const v1::CollectionInfo& collection);

// Prints a table of collections, then a line for each collection with an error. Prints "no collections" if there are
// none.
void PrintCollections(const google::protobuf::RepeatedPtrField<v1::CollectionInfo>& collections,
                      const Context& context);

// Returns one line: "passages: generation 3, 1,398 documents, ...".
std::string Summary(const v1::CollectionInfo& collection);

// Adds to the server's error about a refused path the configuration key that would allow the path. The server's own
// message only lists the allowed folders.
absl::Status NameAllowedRoots(const absl::Status& status);

}  // namespace maxsim::ctl
