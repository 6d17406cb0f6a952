// Scoring calls on a CUDA device: a stream and the workspace of one call at a time, allocated when it is made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/cuda/call/call_input.h"
#include "kernels/cuda/call/call_wait.h"
#include "kernels/cuda/call/completion.h"
#include "kernels/cuda/call/copy_input.h"
#include "kernels/cuda/call/quantize_launch.h"
#include "kernels/cuda/cuda_documents.h"
#include "kernels/cuda/host_documents/document_stream.h"
#include "kernels/cuda/host_documents/streamed_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/repeated_launch.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploader.h"
#include "kernels/cuda/score/score_params.h"
#include "kernels/maxsim.h"
#include "kernels/plan/score.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Seconds of the last call on the device, by stage.
struct CudaTimings {
  double copy_in = 0;  // of calls with copies, with the quantising of queries, which is a part of `score` otherwise
  double score = 0;    // scoring, with the adding of blocks
  double select = 0;   // top-k
  double copy_out = 0;
};

// When candidate lists are joined: where that saves time, or wherever it saves reads.
enum class Joins : uint8_t { kNever, kWorthwhile, kWheneverReadsAreSaved };

// When the wide and deep kernels take candidates in an order of their own: where that saves time, or wherever it can
// be.
enum class Ordering : uint8_t { kNever, kWorthwhile, kAlways };

class CudaExecutor final : public Executor {
 public:
  // `device` must outlive the executor. RESOURCE_EXHAUSTED when the workspace does not fit.
  static absl::StatusOr<std::unique_ptr<CudaExecutor>> Create(Device* device, const ExecutorOptions& options);

  // Waits for the device to be done with the workspace before it goes.
  ~CudaExecutor() override;

  absl::Status TopK(const Documents& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results, CallTimings* timings) override;
  absl::Status Align(const Documents& documents, const Query& query, absl::Span<const uint32_t> ordinals,
                     absl::Span<TokenMatch> matches) override;
  absl::StatusOr<const Documents*> Stage(const DocumentsView& documents) override;

  // Of the last TopK call, for benchmarks and logs.
  const CudaTimings& last_timings() const { return timings_; }
  const ScorePlan& last_plan() const { return input_.score_plan(); }

  // For tests and measurements: the tilings that later calls may choose from (DeviceLimits::tiles). kRows32 is what is
  // left when none of them can run.
  void AllowTiles(uint32_t tiles) { tiles_ = tiles; }
  // The same of joining candidate lists (kernels/plan/list_join.h).
  void SetJoins(Joins joins) { joins_ = joins; }
  // The same of the order of candidates (PlanOrder).
  void SetOrdering(Ordering ordering) { ordering_ = ordering; }
  // Whether the last slice of the last call had one.
  bool last_ordered() const { return ordered_; }
  // Joins of the last slice of the last call.
  int last_joins() const { return input_.num_unions(); }
  // The same of how the stream kernels' work is shared out.
  void TuneStream(const StreamTuning& tuning) { stream_tuning_ = tuning; }
  // Thread blocks of a team in the last pass of the last call (StreamShares): 1 where it had none, 0 where no stream
  // kernel ran.
  int32_t last_team_blocks() const { return team_blocks_; }

  // For measurements: starts what the last call started on the device once more, if that was a call without copies, and
  // does not wait for it. A stream that records takes it down as a graph. FAILED_PRECONDITION after other calls.
  absl::Status StartAgain(const Documents& documents);

  // For measurements: the stream that calls run on. What is started there before a call runs before it.
  cudaStream_t stream() const { return stream_.get(); }

  // For measurements: true times the stages of later calls by events between them, which keeps the stages apart: the
  // input, with the rounding of queries to INT8, and then kernels alone until the results are copied. Otherwise the
  // kernels of small calls note the times.
  void SetStageEvents(bool on) { stage_events_ = on; }

  // For tests and measurements: whether calls of one short query over few candidates are done as lone ones
  // (kernels/cuda/call/single_launch_call.h), where the documents have such a kernel. They are unless told otherwise.
  void SetLoneCalls(bool on) { lone_calls_ = on; }
  // For tests: LoneCall::patience of later calls.
  void SetLonePatience(int32_t polls) { lone_patience_ = polls; }
  // Whether the last slice of the last call was done so.
  bool last_lone() const { return lone_; }
  // And whether it was launched as the graph of one like it.
  bool last_lone_was_graph() const { return lone_ && lone_launch_.last_was_graph(); }

  // For tests and measurements: how later small calls are waited for.
  void SetWaitMode(WaitMode mode) { call_wait_.SetMode(mode); }

  // Device bytes that the workspace takes.
  size_t workspace_bytes() const;

 private:
  CudaExecutor(Device* device, const ExecutorOptions& options);

  absl::Status Allocate();
  // Documents that kernels can read, and the candidates among them that are to be scored.
  struct ScorePass {
    const CudaDocuments* memory = nullptr;  // the rows; offsets and scales are those below
    const int64_t* offsets = nullptr;       // device memory, by the numbers that candidates name documents by
    const float* scales = nullptr;          // the same; null but for I8
    int64_t first = 0;                      // candidates first .. first + count of every query
    int64_t count = 0;
    int64_t mean_tokens = 0;      // of a document
    int64_t longest_tokens = 0;   // 0: unknown
    int64_t spread_tokens = 0;    // SpreadTokens (kernels/plan/score.h); 0: unknown
    int64_t document_tokens = 0;  // of every document, where all have as many and stand in order; else 0

    static ScorePass Over(const CudaDocuments& documents, int64_t num_candidates);
    static ScorePass Over(const BlockDocuments& block, int64_t first, int64_t count);
  };

  absl::Status CheckDevice(const Device* device) const;
  absl::Status CheckLimits(const Documents& documents, absl::Span<const Query> queries) const;
  absl::Status PlanSlice(const Documents& documents, absl::Span<const Query> queries, bool tensor_maps, bool join);
  void GiveResults(absl::Span<std::vector<Scored>> results) const;
  absl::Status RunSlice(const CudaDocuments& documents, absl::Span<const Query> queries,
                        absl::Span<std::vector<Scored>> results);
  absl::Status RunDirect(const CudaDocuments& documents);
  absl::Status LaunchDirect(const CudaDocuments& documents);
  // What a lone call launches (kernels/cuda/call/single_launch_call.h).
  struct LoneLaunch {
    QuantizeParams queries;  // of I8 documents, in a launch of its own before
    ScoreParams scores;
  };
  bool IsLone() const;
  LoneLaunch LoneLaunchOf(const CudaDocuments& documents) const;
  absl::Status LaunchLone(const CudaDocuments& documents, const LoneLaunch& launch);
  absl::Status StartLone(const CudaDocuments& documents);
  absl::Status RunCopied(const CudaDocuments& documents);
  absl::Status WriteInput();
  // `offsets`: as in InputCopy.
  InputCopy InputByKernel(const int64_t* offsets) const;
  absl::Status CopyInput(const int64_t* offsets);
  double EstimatedWork(const CudaDocuments& documents) const;
  // Does nothing unless the documents are I8.
  absl::Status QuantizeQueries(const CudaDocuments& documents);
  // Of an input that begins at `input`, in device or pinned memory. `times`: as in QuantizeParams.
  QuantizeParams QuantizeParamsOf(const uint8_t* input, const CudaDocuments& documents, CallTimes* times) const;
  absl::Status JoinLists();
  // The order of the pass's candidates; none where they are to be taken as they come.
  absl::StatusOr<CandidateOrder> OrderCandidates(const ScorePass& pass);
  absl::Status LaunchScores(const ScorePass& pass);
  ScoreParams ScoresOf(const ScorePass& pass, int64_t first, int64_t count) const;
  // `times`: where those of the selection are noted; may be null.
  absl::Status LaunchSelection(DeviceScored* results, CallTimes* times);
  absl::Status SelectAndCopyResults();
  absl::Status AddTimings(const Event& copied_in);
  size_t AlignRoom(const Query& query) const;
  absl::Status AlignChunk(const ScorePass& pass, const Query& query, absl::Span<const uint32_t> ordinals,
                          absl::Span<TokenMatch> matches);
  absl::Status UploadStaged(const DocumentsView& view, const CudaDocuments::Shape& shape);
  ScoreParams ParamsFor(const ScorePass& pass) const;

  // streamed_calls.cc: documents that are not in the device's memory.
  absl::Status TopKStreamed(const StreamedDocuments& documents, absl::Span<const Query> queries,
                            absl::Span<std::vector<Scored>> results);
  absl::Status RunScan(const StreamedDocuments& documents, absl::Span<const Query> queries,
                       absl::Span<std::vector<Scored>> results);
  absl::StatusOr<size_t> RunLists(const StreamedDocuments& documents, absl::Span<const Query> queries,
                                  absl::Span<std::vector<Scored>> results);
  absl::Status AlignStreamed(const StreamedDocuments& documents, const Query& query,
                             absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches);

  // A part of the input block in device memory.
  template <class T>
  T* Input(size_t offset) const {
    return reinterpret_cast<T*>(device_input_.as<uint8_t>() + offset);
  }

  Device* const device_;
  const ExecutorOptions options_;
  const SliceCapacity capacity_;
  uint32_t tiles_ = ~uint32_t{0};
  StreamTuning stream_tuning_;
  Joins joins_ = Joins::kWorthwhile;
  Ordering ordering_ = Ordering::kWorthwhile;
  bool stage_events_ = false;
  bool lone_calls_ = true;
  int32_t lone_patience_ = kLonePatience;
  CallInput input_;
  CudaTimings timings_;
  CallWait call_wait_;
  RepeatedLaunch lone_launch_;
  bool direct_ = false;   // the last slice was a small call
  bool lone_ = false;     // and a lone one
  bool ordered_ = false;  // its candidates were ordered
  int32_t team_blocks_ = 0;

  Stream stream_;
  Event start_, copied_in_, scored_, selected_, done_;

  PinnedBuffer pinned_input_;
  DeviceBuffer device_input_;
  DeviceBuffer scores_;             // [candidates]
  DeviceBuffer partials_;           // sums of blocks, scores of unions; in Align, the matches
  DeviceBuffer join_words_;         // of joined lists
  DeviceBuffer placed_, chunks_;    // a CandidateOrder's
  DeviceBuffer team_words_;         // StreamTeams
  DeviceBuffer claims_;             // zero between launches
  DeviceBuffer keys_;               // candidates of large selections
  DeviceBuffer select_workspaces_;  // as SelectWorkspace says between launches
  DeviceBuffer lone_state_;         // a LoneCallState
  PinnedBuffer times_;              // a CallTimes
  DeviceBuffer device_results_;     // [results]
  PinnedBuffer pinned_results_;

  Uploader uploader_;
  DeviceBuffer staged_tokens_;
  DeviceBuffer staged_offsets_;
  DeviceBuffer staged_scales_;
  std::optional<CudaDocuments> staged_;

  std::unique_ptr<DocumentStream> documents_in_;  // null where the device has no blocks for it
  ListPasses list_passes_;
  std::vector<Query> listed_;  // of RunLists
};

}  // namespace maxsim::cuda
