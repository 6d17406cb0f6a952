// Joins the sources of several inputs into one, which reads them one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collection/build/sources/sources.h"

namespace maxsim::collection {

// Returns the token vectors of all sources, at least one, which have the same dimension. If all have the same type,
// keeps it. Otherwise converts to f32: f16, bf16 and f32 exactly, f64 rounded to nearest.
std::unique_ptr<TokenSource> JoinTokens(std::vector<std::unique_ptr<TokenSource>> sources);

// The payloads of one input; `source` is null if none of its documents has one.
struct PayloadPart {
  int64_t num_documents = 0;
  std::unique_ptr<PayloadSource> source;
};

std::unique_ptr<PayloadSource> JoinPayloads(std::vector<PayloadPart> parts);

}  // namespace maxsim::collection
