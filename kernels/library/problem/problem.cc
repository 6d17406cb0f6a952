#include "kernels/library/problem/problem.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "kernels/library/problem/read_struct.h"
#include "kernels/limits.h"

namespace maxsim::library {
namespace {

// Maximum number of elements of a matrix or of the results, so that products of a call's sizes cannot overflow.
constexpr int64_t kMaxElements = int64_t{1} << 48;

// The size of each structure in the oldest version of the header with which programs may have been compiled.
constexpr size_t kFirstTokensSize = 96;
constexpr size_t kFirstCallSize = 88;
constexpr size_t kFirstGradientsSize = 48;
static_assert(sizeof(maxsim_tokens) == kFirstTokensSize);
static_assert(sizeof(maxsim_call) == kFirstCallSize);
static_assert(sizeof(maxsim_gradients) == kFirstGradientsSize);

// `scalable` says whether tokens of half precision may have scales.
Status CheckTokens(const char* name, const maxsim_tokens& tokens, int64_t max_tokens, bool coded, bool scalable) {
  const bool padded = tokens.layout == MAXSIM_PADDED;
  const bool scattered = tokens.layout == MAXSIM_SCATTERED;
  Status status = First(
      CheckRange(name, ".layout", tokens.layout, MAXSIM_PADDED, MAXSIM_SCATTERED),
      CheckRange(name, ".type", tokens.type, MAXSIM_F32, MAXSIM_I8), CheckRange(name, ".dim", tokens.dim, 1, kMaxDim),
      CheckRange(name, ".index_type", tokens.index_type, MAXSIM_INT64, MAXSIM_INT32),
      CheckRange(name, ".num_sequences", tokens.num_sequences, 0, kMaxShardDocuments),
      CheckRange(name, ".max_tokens", tokens.max_tokens, 0, max_tokens),
      CheckRange(name, ".num_rows", tokens.num_rows, 0, kMaxElements / kMaxDim),
      CheckRange(name, ".scale_of", tokens.scale_of, MAXSIM_SCALE_PER_SEQUENCE, MAXSIM_SCALE_PER_TOKEN),
      CheckRange(name, ".reserved", tokens.reserved, 0, 0));
  if (!status.ok()) return status;
  if (padded && tokens.num_rows != tokens.num_sequences * tokens.max_tokens) {
    return InvalidArgument(Text(name, ".num_rows", tokens.num_rows,
                                "padded sequences have num_sequences * max_tokens = " +
                                    std::to_string(tokens.num_sequences * tokens.max_tokens)));
  }
  const bool any_row = tokens.num_rows > 0;
  const bool any_sequence = tokens.num_sequences > 0;
  return First(
      CheckPresent(name, ".rows", tokens.rows, any_row && !coded),
      CheckAbsent(name, ".rows", tokens.rows, coded, "where documents are codes"),
      CheckPresent(name, ".offsets", tokens.offsets, !padded && any_sequence),
      CheckAbsent(name, ".offsets", tokens.offsets, padded, "in the padded layout"),
      CheckPresent(name, ".lengths", tokens.lengths, scattered && any_sequence),
      CheckAbsent(name, ".lengths", tokens.lengths, !padded && !scattered, "in the packed layout"),
      CheckPresent(name, ".scales", tokens.scales,
                   tokens.type == MAXSIM_I8 && (tokens.scale_of == MAXSIM_SCALE_PER_TOKEN ? any_row : any_sequence)),
      CheckAbsent(name, ".scales", tokens.scales,
                  tokens.type != MAXSIM_I8 &&
                      !(scalable && tokens.type != MAXSIM_F32 && tokens.scale_of == MAXSIM_SCALE_PER_TOKEN),
                  "but for the type MAXSIM_I8, and for tokens of documents in half precision"));
}

// Sets the numbers of pairs and checks what depends on the pairing.
Status CheckPairing(Problem* problem) {
  const maxsim_call& call = problem->call;
  const int64_t num_queries = problem->queries.num_sequences;
  const int64_t num_documents = problem->documents.num_sequences;
  Status status = First(CheckRange("call", ".pairing", call.pairing, MAXSIM_ALL, MAXSIM_LISTS),
                        CheckAbsent("call", ".candidates", call.candidates, call.pairing != MAXSIM_LISTS,
                                    "but in the pairing MAXSIM_LISTS"));
  if (!status.ok()) return status;
  switch (call.pairing) {
    case MAXSIM_ALL:
      problem->list_length = num_documents;
      break;
    case MAXSIM_PAIRS:
      problem->list_length = 1;
      if (num_documents != num_queries) {
        return InvalidArgument(Text("documents", ".num_sequences", num_documents,
                                    "with MAXSIM_PAIRS it must be that of queries, " + std::to_string(num_queries)));
      }
      break;
    default:
      problem->list_length = call.list_length;
      status = CheckRange("call", ".list_length", call.list_length, 0, kMaxShardDocuments);
      if (!status.ok()) return status;
  }
  if (num_queries > 0 && problem->list_length > kMaxElements / num_queries / (problem->queries.max_tokens + 1)) {
    return InvalidArgument("the call has " + std::to_string(num_queries) + " queries with " +
                           std::to_string(problem->list_length) +
                           " documents each; results have at most 2^48 elements");
  }
  problem->num_pairs = num_queries * problem->list_length;
  if (call.pairing == MAXSIM_LISTS && call.candidates == nullptr && num_documents != problem->num_pairs) {
    return InvalidArgument(
        Text("documents", ".num_sequences", num_documents,
             "without candidates it must be queries * list_length = " + std::to_string(problem->num_pairs)));
  }
  return {};
}

}  // namespace

Status ReadProblem(const maxsim_call* call, Problem* problem, DocumentRows document_rows) {
  const bool coded = document_rows == DocumentRows::kCoded;
  if (Status status = ReadStruct("call", call, kFirstCallSize, &problem->call); !status.ok()) return status;
  Status status = First(ReadStruct("queries", problem->call.queries, kFirstTokensSize, &problem->queries),
                        ReadStruct("documents", problem->call.documents, kFirstTokensSize, &problem->documents));
  if (!status.ok()) return status;
  status = First(CheckRange("call", ".device", problem->call.device, MAXSIM_CPU, MAXSIM_CUDA),
                 CheckRange("call", ".num_threads", problem->call.num_threads, 0, 4096),
                 CheckTokens("queries", problem->queries, kMaxQueryTokens, /*coded=*/false, /*scalable=*/false),
                 CheckTokens("documents", problem->documents, kMaxDocumentTokens, coded, /*scalable=*/!coded));
  if (!status.ok()) return status;
  if (problem->queries.layout == MAXSIM_SCATTERED) {
    return InvalidArgument("queries.layout is MAXSIM_SCATTERED; queries are padded or packed");
  }
  if (coded && problem->documents.type == MAXSIM_I8) {
    return Unsupported("documents.type is MAXSIM_I8; codes are of MAXSIM_F32, MAXSIM_F16 and MAXSIM_BF16");
  }
  if (problem->queries.type != problem->documents.type || problem->queries.dim != problem->documents.dim) {
    return InvalidArgument("queries have type " + std::to_string(problem->queries.type) + " and " +
                           std::to_string(problem->queries.dim) + " columns, documents " +
                           std::to_string(problem->documents.type) + " and " + std::to_string(problem->documents.dim) +
                           "; they must have the same");
  }
  if (std::isnan(problem->call.empty_score)) return InvalidArgument("call.empty_score is NaN");
  return CheckPairing(problem);
}

Status ReadGradients(const Problem& problem, const maxsim_gradients* given, maxsim_gradients* gradients) {
  if (Status status = ReadStruct("gradients", given, kFirstGradientsSize, gradients); !status.ok()) return status;
  if (problem.type() == ScalarType::kI8) {
    return Unsupported("queries.type is MAXSIM_I8; gradients are of MAXSIM_F32, MAXSIM_F16 and MAXSIM_BF16");
  }
  if (problem.scales_document_tokens()) {
    return Unsupported("documents.scales is not null; there are no gradients if tokens have scales");
  }
  return First(CheckPresent("gradients", ".argmax", gradients->argmax, problem.num_argmax() > 0),
               CheckPresent("gradients", ".score_gradients", gradients->score_gradients, problem.num_pairs > 0));
}

}  // namespace maxsim::library
