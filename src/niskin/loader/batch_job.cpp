#include "niskin/loader/batch_job.h"

#include <algorithm>

namespace niskin::loader {
namespace {

constexpr std::uint64_t kAlignment = 64;

std::uint64_t base_bytes(const plan::BaseRequest& base) {
  const std::uint64_t bytes = base.fields->row_bytes() * base.rows.size();
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

WorkCounts& WorkCounts::operator+=(const WorkCounts& other) {
  reads += other.reads;
  bytes_read += other.bytes_read;
  decodes += other.decodes;
  chunks += other.chunks;
  absent_chunks += other.absent_chunks;
  read_s += other.read_s;
  decode_s += other.decode_s;
  token_wait_s += other.token_wait_s;
  return *this;
}

void BadValue::add(const BadValue& other) {
  count += other.count;
  if (other.first_row > first_row) return;
  const bool same_row = other.first_row == first_row;
  first_row_count = other.first_row_count + (same_row ? first_row_count : 0);
  first_cell = same_row ? std::min(first_cell, other.first_cell) : other.first_cell;
  first_row = other.first_row;
}

std::uint64_t BatchJob::slab_bytes(const std::vector<plan::BaseRequest>& bases) {
  std::uint64_t total = 0;
  for (const auto& base : bases) total += base_bytes(base);
  return total;
}

BatchJob::BatchJob(std::vector<plan::BaseRequest> bases) : bases_(std::move(bases)) {
  plan::make_read_plan(bases_, plan_);
  for (const auto& base : bases_) {
    offsets_.push_back(slab_bytes_);
    slab_bytes_ += base_bytes(base);
  }
}

void BatchJob::take_slab(SlabPool& slabs) {
  if (!slab_) slab_ = slabs.take(slab_bytes_);
}

float* BatchJob::base_data(std::size_t number) const noexcept {
  return reinterpret_cast<float*>(slab_->data() + offsets_[number]);
}

float* BatchJob::slot(std::uint32_t base, std::uint32_t row, std::uint32_t channel) const noexcept {
  const plan::FieldSet& set = fields(base);
  const std::size_t plane = row * set.fields().size() + channel;
  return base_data(base) + plane * static_cast<std::size_t>(set.plane_cells());
}

void BatchJob::fill_dry() const noexcept {
  for (const plan::DrySlot& dry : plan_.dry) {
    const plan::FieldSet& set = fields(dry.base);
    std::fill_n(slot(dry.base, dry.row, dry.channel), set.plane_cells(),
                set.policy().masked_fill_value);
  }
}

}  // namespace niskin::loader
