// Answers what clients of other services ask before they rerank: Xinference's and OpenAI's /v1/models, Xinference's
// /v1/cluster/auth, and /info of text-embeddings-inference. Each path exists below /text too. It is internal to
// server/http.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "maxsim/v1/rerank.pb.h"
#include "server/http/transport.h"
#include "server/service/limits.h"

namespace maxsim::http {

struct ModelPath {
  enum class Kind { kList, kOne, kInfo, kAuth };  // kAuth: whether calls need a token
  Kind kind = Kind::kList;
  std::string name = {};  // of kOne
  bool is_text = false;   // below /text
};

// Returns what a path asks about models, or nullopt.
std::optional<ModelPath> ParseModelPath(std::string_view path);

// What the answers are made of.
struct ModelSource {
  std::vector<v1::CollectionInfo> collections = {};
  const v1::EncoderInfo* encoder = nullptr;  // null: the server takes no texts
  service::RequestLimits limits = {};
  int max_requests = 0;
  bool needs_token = false;
  // Strings are texts without /text too.
  bool root_documents_are_texts = false;
};

// Models are collections and the encoder's model. Where strings are texts and there is an encoder, any name will do, as
// it does for a rerank call; otherwise an unknown one gets 404.
Response AnswerModels(const ModelPath& path, const ModelSource& source);

}  // namespace maxsim::http
