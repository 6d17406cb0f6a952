// Joins the sources of several inputs into one source that reads them one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collection/build/sources/sources.h"

namespace maxsim::collection {

// Returns a source of the token vectors of all `sources`: at least one, and all of the same dimension. If they have
// different element types, converts to f32 (f64 is rounded to nearest).
std::unique_ptr<TokenSource> JoinTokens(std::vector<std::unique_ptr<TokenSource>> sources);

// The payloads of one input; `source` is null if none of its documents has one.
struct PayloadPart {
  int64_t num_documents = 0;
  std::unique_ptr<PayloadSource> source;
};

std::unique_ptr<PayloadSource> JoinPayloads(std::vector<PayloadPart> parts);

}  // namespace maxsim::collection
