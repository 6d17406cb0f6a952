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

// Checks whether the request's texts may be encoded, as far as this can be known before they are. INVALID_ARGUMENT: a
// query's text is blank, or there are too many texts. `dim` is that of the vectors to come; 0 if it is not known yet.
absl::Status CheckTexts(const v1::RerankRequest& request, int32_t dim, const RequestLimits& limits);

// Takes the texts out of a request. Leaves out blank documents, because encoders return no vectors for them.
// `is_blank` gets one value for each document text: whether it is blank.
Texts TakeTexts(v1::RerankRequest& request, std::vector<bool>& is_blank);

// Replaces the texts by token matrices. A blank document becomes one token of zeros, whose similarity with any token is
// 0.
TextFacts PlaceTokens(EncodedTexts encoded, const std::vector<bool>& is_blank, v1::RerankRequest& request);

// Fills `matrix` with the vectors of a text, in F32.
void SetTokens(const encoder::EncodedText& text, v1::TokenMatrix& matrix);

}  // namespace maxsim::service
