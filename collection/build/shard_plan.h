// Plans shards: which documents each shard gets, and how large its file will be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collection/catalog.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

// The properties that all shards of a collection share.
struct ShardLayout {
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8
  int64_t dim = 0;
  IdType id_type = IdType::kString;
  bool has_payloads = false;
  bool has_ordinals = false;  // those of a partition (positions.h)
};

// All or some of the documents of a catalog, in the order in which they are written.
struct DocumentList {
  int64_t size = 0;
  // [size] The documents' numbers in the catalog, ascending, not owned. If null, the numbers are 0 .. size - 1.
  const int64_t* numbers = nullptr;

  int64_t operator[](int64_t idx) const { return numbers == nullptr ? idx : numbers[idx]; }
};

// The documents that go into one shard: a range of a DocumentList, with sums over the range.
struct ShardPlan {
  int64_t first_document = 0;  // in the list
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t id_bytes = 0;
  int64_t payload_bytes = 0;
  int64_t num_bytes = 0;  // of the file
};

// Fills shards in the order of `documents`, each up to `max_shard_bytes`. A document that needs more gets a shard of
// its own.
std::vector<ShardPlan> PlanShards(const Catalog& catalog, const DocumentList& documents, const ShardLayout& layout,
                                  int64_t max_shard_bytes);

// Returns the size of a planned shard's file.
int64_t ShardFileBytes(const ShardPlan& plan, const ShardLayout& layout);

// Returns the header of a shard file. Its tensors are in the order of formats.md.
std::string FormatShardHeader(const ShardPlan& plan, const ShardLayout& layout);

// Returns a name such as "shard-000002-00000.safetensors".
std::string ShardFileName(int64_t generation, int64_t index);

// Returns the name of the file of a shard's fields, such as "fields-000002-00000.safetensors".
std::string FieldFileName(int64_t generation, int64_t index);

// Returns the name of file 0, 1 or 2 of a shard's codes, such as "codes-000002-00000-plane0.safetensors".
std::string CodeFileName(int64_t generation, int64_t index, size_t file);

}  // namespace maxsim::collection
