// Checks the texts of rerank requests, and replaces them by token vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"
#include "server/service/request/text_encoding.h"
#include "server/service/request/text_facts.h"

namespace maxsim::service {

// Returns whether a query or an inline document is a text.
bool HasTexts(const v1::RerankRequest& request);

// Checks the request's texts before they are encoded. Returns INVALID_ARGUMENT if a query's text is blank, or if there
// are too many texts. `dim` is the dimension of the encoder's vectors; 0 if that is not known yet.
absl::Status CheckTexts(const v1::RerankRequest& request, int32_t dim, const RequestLimits& limits);

// Takes the texts out of a request, except blank documents, because encoders return no vectors for them. For each
// document text, adds to `is_blank` whether it is blank.
Texts TakeTexts(v1::RerankRequest& request, std::vector<bool>& is_blank);

// Puts token matrices in the place of the texts. A blank document gets one token of zeros, whose similarity with any
// token is 0.
TextFacts PlaceTokens(EncodedTexts encoded, const std::vector<bool>& is_blank, v1::RerankRequest& request);

// Fills `matrix` with the vectors of a text, in F32.
void SetTokens(const encoder::EncodedText& text, v1::TokenMatrix& matrix);

}  // namespace maxsim::service
