// MaxSim scoring: the problem description and the interface every backend implements.
//
//   score(q, d) = sum_i w_i * max_j <q_i, d_j>
//
// over the query's tokens i and the document's tokens j, accumulated in FP32. Nothing here knows of gRPC, files or
// collections; the service hands in plain structs that point at its own memory.
//
// Contract of every backend:
//  - A score depends only on the query's tokens and weights and on the document's tokens: not on the other candidates,
//    the other queries of a call, the order, the thread count or the run. Repeating a call gives the same bits.
//  - For quantised documents the score is that of the quantised query (kernels/quantize.h), and so is the reference.
//  - For residual codes d_j is the decoded vector (kernels/residual_codes.h).
//  - |score - FP64 reference| <= 1e-5 * sum_i |w_i| * max_j sum_k |q_ik * d_jk| (kernels/reference.h computes both).
//  - Results are in rank order (kernels/rank_order.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/limits.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"

namespace maxsim {

struct CodeShape;  // kernels/codes/codes.h
struct CodesView;
class LoadedCodes;  // kernels/codes/scan_executor.h
class ScanExecutor;
struct AppendableCodesShape;  // kernels/codes/appendable_codes.h
class AppendableCodes;

// The owner of memory that something outside the process can change while documents are scored in it, such as a mapped
// file.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Copies `num_bytes` of the view's memory, from `from` on, to `to`, in the way that is fastest for bytes that may not
  // be in memory yet. Thread-safe. Returns DATA_LOSS when they cannot be read. A source that knows no faster way copies
  // from memory.
  virtual absl::Status Read(const void* from, size_t num_bytes, void* to) const {
    std::memcpy(to, from, num_bytes);
    return absl::OkStatus();
  }
  // Returns OK if every byte read so far was the byte that was loaded. Otherwise returns DATA_LOSS, saying what
  // happened, for as long as that is so. Thread-safe and cheap, since it is called after each scoring call, before the
  // results are used.
  virtual absl::Status Check() const = 0;
};

// A ragged set of documents in host memory: document n owns rows offsets[n] .. offsets[n + 1] of `tokens`.
struct DocumentsView {
  ScalarType type = ScalarType::kF16;
  int32_t dim = 0;                       // columns, kMinDim .. kMaxDim
  int64_t num_documents = 0;             // 0 .. kMaxShardDocuments
  const void* tokens = nullptr;          // [offsets[num_documents]] rows of RowBytes(type, dim), packed, 2-byte aligned
                                         // at least; values finite and at most kMaxAbsValue in magnitude, int8 elements
                                         // within +-kMaxInt8, centroid numbers below codebook.num_centroids (backends
                                         // do not check values)
  const int64_t* offsets = nullptr;      // [num_documents + 1], offsets[0] == 0, strictly increasing
  const float* scales = nullptr;         // kI8: [num_documents], finite, 0 or more; other types: null
  uint64_t rotation_seed = 0;            // kI8: seed of the rotation that came before quantising the rows
  ResidualCodebook codebook = {};        // residual codes: what they are decoded with; other types: none
  const MemorySource* source = nullptr;  // detects changes of `tokens`; null if they never change
  int64_t document_tokens = 0;  // tokens of every document, if all are known to have equally many; 0 in other cases

  int64_t num_tokens() const { return num_documents == 0 ? 0 : offsets[num_documents]; }
};

// Checks the shape of a view (not its values): dimension, type, offsets that start at 0 and grow by 1 ..
// kMaxDocumentTokens.
absl::Status ValidateDocuments(const DocumentsView& documents);

// Returns the type of queries against documents of type `documents`: that type itself; F32 for quantised documents,
// whose backends rotate and quantise queries themselves (kernels/quantize.h); F16 for residual codes.
constexpr ScalarType QueryType(ScalarType documents) {
  if (IsResidual(documents)) return ScalarType::kF16;
  return documents == ScalarType::kI8 ? ScalarType::kF32 : documents;
}

// Returns the type of documents that a request brings along, given that of the collection: F16 for residual codes, else
// the same type. QueryType is the same for both types.
constexpr ScalarType StagedType(ScalarType documents) { return IsResidual(documents) ? ScalarType::kF16 : documents; }

// One query against one set of documents. All pointers are to host memory, which is borrowed for the length of the
// call.
struct Query {
  const void* tokens = nullptr;        // [num_tokens, dim] in QueryType(documents' type), row-major, aligned to 2 bytes
  const float* weights = nullptr;      // [num_tokens]; null means every weight is 1
  int32_t num_tokens = 0;              // 1 .. kMaxQueryTokens
  const uint32_t* ordinals = nullptr;  // [num_candidates], each < num_documents, repeats allowed; null means all
  int64_t num_candidates = 0;          // ignored when ordinals is null
  int32_t top_k = 0;                   // 1 .. kMaxTopK; more than there are candidates returns all of them
};

// A candidate of a query with its score.
struct Scored {
  float score = 0;
  uint32_t position = 0;  // index into Query::ordinals, or the document's ordinal when that is null

  friend bool operator==(const Scored&, const Scored&) = default;
};

// Which document token a query token matched, and how well.
struct TokenMatch {
  int32_t document_token = 0;  // index inside the document; the smallest one where several are equal
  float similarity = 0;        // <q_i, d_j>, before the weight
};

// How long the stages of one call took, and how much was brought to the device for it. A backend without such a stage
// leaves zero.
struct CallTimings {
  double copy_seconds = 0;    // host to device and back
  double kernel_seconds = 0;  // scoring and selection
  // These count documents of Tier::kHost and kDisk.
  int64_t streamed_bytes = 0;  // bytes of rows that were brought to the device
  int64_t cache_hits = 0;      // listed documents that the device's cache held
  int64_t cache_misses = 0;    // listed documents that it did not hold

  CallTimings& operator+=(const CallTimings& other) {
    copy_seconds += other.copy_seconds;
    kernel_seconds += other.kernel_seconds;
    streamed_bytes += other.streamed_bytes;
    cache_hits += other.cache_hits;
    cache_misses += other.cache_misses;
    return *this;
  }
};

// Where a backend keeps documents that it scores again and again. A score has the same bits whichever tier it is.
enum class Tier : uint8_t {
  kDevice,  // in the device's own memory
  kHost,    // in host memory that the device reads at the link's full rate (pinned, for a GPU); each call copies the
            // documents that it scores
  kDisk,    // where the view's memory lies, say in a mapped file; each call reads the documents that it scores
};

// Memory that documents take beside the view that they were loaded from.
struct MemoryNeed {
  size_t device_bytes = 0;
  size_t host_bytes = 0;

  friend bool operator==(const MemoryNeed&, const MemoryNeed&) = default;
};

// Documents that a backend can score. Immutable, and safe to use from any thread. Must not outlive the Backend that
// made them.
class Documents {
 public:
  virtual ~Documents() = default;
  virtual ScalarType type() const = 0;
  virtual int32_t dim() const = 0;
  virtual int64_t num_documents() const = 0;
  virtual int64_t num_tokens() const = 0;
  // Returns the memory that this object owns; borrowed memory of a view does not count.
  virtual MemoryNeed memory() const = 0;
};

// The room of documents that grow. It is set when they are made and does not change.
struct AppendableShape {
  ScalarType type = ScalarType::kF16;
  int32_t dim = 0;
  int64_t max_documents = 0;
  int64_t max_tokens = 0;
  uint64_t rotation_seed = 0;  // kI8
};

// Documents in a backend's memory that more documents can be appended to. Appended documents neither move nor change.
// One thread at a time may append; the other functions may be called from any thread meanwhile. Must not outlive the
// Backend that made them.
class AppendableDocuments {
 public:
  virtual ~AppendableDocuments() = default;
  // Appends all documents of the view, of the same type, dimension and rotation. After OK they are in the backend's
  // memory, and the view is not used any more. On an error nothing was appended: RESOURCE_EXHAUSTED, with the numbers,
  // beyond max_documents or max_tokens; UNAVAILABLE when the device is lost.
  virtual absl::Status Append(const DocumentsView& documents) = 0;
  // Returns the documents that were appended so far, with ordinals in the order of appending. Any Executor of the
  // backend can score them. The result is immutable and keeps the memory alive.
  virtual std::shared_ptr<const Documents> Snapshot() const = 0;
  // Copies rows back, [num_tokens, dim] packed, of tokens that were appended. UNAVAILABLE when the device is lost.
  virtual absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const = 0;
};

// The sizes for which an Executor allocates memory when it is made. A call beyond them fails with RESOURCE_EXHAUSTED
// naming the size and the limit. A backend that does not allocate up front may accept more.
struct ExecutorOptions {
  int32_t max_queries = 64;                         // queries of one call
  int64_t max_query_tokens = 64 * 1024;             // tokens of all queries of one call
  int64_t max_candidates = int64_t{1} << 22;        // candidates of all queries of one call, listed or whole
  int32_t max_dim = 1024;                           // columns of the widest documents
  int64_t max_staged_bytes = int64_t{64} << 20;     // token bytes of documents passed to Stage
  int64_t max_staged_documents = int64_t{1} << 16;  // documents passed to Stage
};

// Runs scoring calls one after another with its own workspace (on a GPU, with its own CUDA stream). Not thread-safe:
// use one executor per thread; a backend can have several. Must not outlive its Backend.
class Executor {
 public:
  virtual ~Executor() = default;

  // Scores every query against its candidates among `documents` and returns the best top_k of each, in rank order.
  // `results` has one element per query and is overwritten; it keeps its capacity from call to call. `timings` may be
  // null. Returns INVALID_ARGUMENT for a query outside the limits or an ordinal out of range; UNAVAILABLE when the
  // device is lost, and then for every later call too; DATA_LOSS when documents that are scored where they lie have
  // changed there (DocumentsView::source).
  virtual absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                            absl::Span<std::vector<Scored>> results, CallTimings* timings) = 0;

  // Finds, for each of `ordinals` (documents, in any order), the document token that each query token matched.
  // `matches` is [ordinals.size(), query.num_tokens] row-major. The query's own candidates, top_k and weights are
  // ignored.
  virtual absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                             absl::Span<TokenMatch> matches) = 0;

  // Makes documents that came with a request, which are not residual codes, scorable by this executor, without giving
  // them a name. The result belongs
  // to the executor and is valid until its next Stage call; the view's memory must stay valid as long.
  virtual absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) = 0;
};

// The device that a backend runs on.
struct BackendInfo {
  std::string name;     // "cpu" or "cuda"
  std::string device;   // as the vendor names it
  std::string isa;      // instruction set or compute capability in use: "avx2", "sm_90"
  int parallelism = 0;  // worker threads, or multiprocessors
  // The token pairs that a call should have at most, so that it takes a fraction of a second: nothing interrupts a
  // call.
  uint64_t max_call_work = uint64_t{1} << 36;
  size_t memory_bytes = 0;  // the whole memory that documents may be loaded into
  std::string link;         // how documents travel from host memory, for people; "" where they do not
};

// A device that scores. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const BackendInfo& info() const = 0;

  // Returns the bytes that are free for Load at this moment: of the device's memory, or of the host's for a backend
  // that scores in host memory.
  virtual absl::StatusOr<size_t> FreeBytes() const = 0;

  // Returns the memory that Load would take for documents of this shape.
  virtual MemoryNeed BytesNeeded(ScalarType type, int32_t dim, int64_t num_documents, int64_t num_tokens,
                                 Tier tier) const = 0;

  // Returns the memory that Load takes beside BytesNeeded for the codebook of documents of residual codes, in any tier.
  virtual MemoryNeed CodebookBytesNeeded(ScalarType /*type*/, int32_t /*dim*/, int64_t /*num_centroids*/) const {
    return {};
  }

  // Makes documents scorable. `keep_alive` owns the view's memory. The result holds on to it where documents are scored
  // from there (every tier of a backend that scores in host memory, and kDisk); else it is dropped when the copy is
  // done. Returns RESOURCE_EXHAUSTED, with the numbers, when there is too little memory.
  virtual absl::StatusOr<std::unique_ptr<Documents>> Load(const DocumentsView& documents, Tier tier,
                                                          std::shared_ptr<const void> keep_alive) = 0;

  // Makes room for documents that will be appended, which are not residual codes, in the device's memory (on the CPU
  // backend, the host's), which is what BytesNeeded says of max_documents and max_tokens in Tier::kDevice; on the CPU
  // backend, the size of the arrays. Returns RESOURCE_EXHAUSTED, with the numbers, when there is too little memory.
  virtual absl::StatusOr<std::shared_ptr<AppendableDocuments>> CreateAppendable(const AppendableShape& shape) = 0;

  // Makes an executor with room for `options`. Returns RESOURCE_EXHAUSTED when there is too little memory.
  virtual absl::StatusOr<std::unique_ptr<Executor>> CreateExecutor(const ExecutorOptions& options) = 0;

  // Returns the memory that LoadCodes would take for 1, 2 or 4 planes of such codes.
  virtual MemoryNeed CodeBytesNeeded(const CodeShape& shape, int planes, int64_t num_documents,
                                     int64_t num_tokens) const;

  // Returns the most device memory that the workspace of one ScanExecutor takes for scans of objects of this shape with
  // at most `num_documents` documents each. It holds for calls within kMaxScanQueries and the bounds of a server's
  // calls (kernels/codes/scan.h) whose queries have the same candidates in each object: one list, one mask or all
  // documents. 0 of a backend that scans in host memory.
  virtual size_t ScanBytesNeeded(const CodeShape& shape, int64_t num_documents) const;

  // Makes the first 1, 2 or 4 planes of codes scannable. `keep_alive` owns the view's memory. The result holds on to it
  // where codes are scanned from there (a backend that scans in host memory); else it is dropped when the copy is done.
  // INVALID_ARGUMENT where the codes have fewer planes or are damaged; RESOURCE_EXHAUSTED, with the numbers, when there
  // is too little memory; UNIMPLEMENTED of a backend that scans no codes.
  virtual absl::StatusOr<std::unique_ptr<LoadedCodes>> LoadCodes(const CodesView& codes, int planes,
                                                                 std::shared_ptr<const void> keep_alive);

  // Reserves memory for codes that will be appended, on the device (on the CPU backend, the host): as many bytes as
  // CodeArrayBytes returns for max_documents and max_tokens. INVALID_ARGUMENT names what is wrong with the shape; other
  // errors as LoadCodes.
  virtual absl::StatusOr<std::shared_ptr<AppendableCodes>> CreateAppendableCodes(const AppendableCodesShape& shape);

  // Makes an executor of scans. Errors as LoadCodes.
  virtual absl::StatusOr<std::unique_ptr<ScanExecutor>> CreateScanExecutor();

  // Returns OK while the device answers. Once a device has failed, it stays UNAVAILABLE, with the first error's text.
  virtual absl::Status Health() const = 0;
};

inline constexpr int kMaxCpuThreads = 1024;

struct CpuOptions {
  int num_threads = 0;  // workers shared by all executors, kMaxCpuThreads at most; 0: one per available core
  std::string isa;      // a name that CpuIsas() lists; "": the best that the machine has
};

// Returns the names of the instruction sets that this machine and this build can run, best first. The last one is
// always the portable one.
std::vector<std::string> CpuIsas();

// Returns INVALID_ARGUMENT, naming the value, for an instruction set that CpuIsas() does not list or a number of
// threads that is out of range.
absl::StatusOr<std::unique_ptr<Backend>> CreateCpuBackend(const CpuOptions& options);

struct CudaOptions {
  int device = 0;  // CUDA device ordinal
  // The token bytes of a document batch, in which documents of Tier::kHost and kDisk are copied to the device. Every
  // executor has two batches in device memory. A document that is longer than a batch cannot be loaded into those
  // tiers; with 0 no document can.
  int64_t stream_block_bytes = int64_t{128} << 20;
  // The device memory in which every executor keeps documents of Tier::kHost and kDisk that candidate lists name again
  // and again.
  int64_t document_cache_bytes = 0;
  int reader_threads = 8;  // threads that read documents of kDisk, and that copy those of kHost at loading; at least 1
};

// Returns how many CUDA devices this machine has, numbered from 0 on, whether they work or not. Returns UNIMPLEMENTED
// when built without CUDA, and UNAVAILABLE where there is no driver or no device.
absl::StatusOr<int> CountCudaDevices();

// Returns UNIMPLEMENTED when built without CUDA, UNAVAILABLE when there is no such device or it cannot be used, and
// RESOURCE_EXHAUSTED when its memory is full; the message says what was missing.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(const CudaOptions& options);

// Returns true when this build contains the CUDA backend.
bool BuiltWithCuda();

}  // namespace maxsim
