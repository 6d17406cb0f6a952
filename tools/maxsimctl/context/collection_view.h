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

// A table of collections, then a line for each error that one of them carries. "no collections" when there is none.
void PrintCollections(const google::protobuf::RepeatedPtrField<v1::CollectionInfo>& collections,
                      const Context& context);

// Returns one line: "passages: generation 3, 1,398 documents, ...".
std::string Summary(const v1::CollectionInfo& collection);

// Names the key that a refused path wants; the server only says which folders it has.
absl::Status NameAllowedRoots(const absl::Status& status);

}  // namespace maxsim::ctl
