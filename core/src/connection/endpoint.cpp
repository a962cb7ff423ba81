// Builds the local half of a connection.
#include "endpoint.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

namespace verbatim {
namespace {

// An honest peer has a receive for each immediate (docs/arrival.md, invariant 3).
constexpr std::uint8_t kNotReadyRetries = 3;
// Flushing needs no peer.
constexpr std::chrono::seconds kFlushLimit{2};

std::uint64_t draw_key() {
    std::uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != sizeof key)
        throw Error(Errc::device_error, "connection", "the kernel gives no random bytes",
                    "allow getrandom(2) where the process is confined (seccomp)");
    return key;
}

}  // namespace

RegisteredBlock::RegisteredBlock(Device& device, SparseBlocks& blocks, std::size_t bytes,
                                 Access access)
    : blocks_(blocks), block_(blocks.take(bytes)) {
    try {
        const bool is_for_peers = allows(access, Access::remote_write);
        region_ = device.register_memory(
            block_.at, bytes, access,
            is_for_peers ? MemoryBacking{block_.file, block_.offset, true} : MemoryBacking{});
    } catch (...) {
        blocks_.give_back(block_);
        throw;
    }
}

RegisteredBlock::~RegisteredBlock() {
    region_.reset();
    blocks_.give_back(block_);
}

Endpoint::Endpoint(Context::Impl& context, LaneOfEndpoint made_for,
                   const std::array<std::uint8_t, 16>& local_address)
    : context_(context),
      mode_(made_for.lane->mode()),
      incoming_(new Incoming{{*context.device, context.rings, context.config.ring.bytes,
                              Access::local_write | Access::remote_write},
                             PostedLines::PeerLine(context.posted),
                             std::make_unique<NotePool::Note>(made_for.lane->resources().notes)}),
      posted_(context.posted),
      tag_key_(draw_key()),
      reservation_(std::move(made_for.reservation)),
      queue_pair_(make_queue_pair(*reservation_, local_address)) {}

Endpoint::~Endpoint() { leave(); }

std::unique_ptr<QueuePairHandle> Endpoint::make_queue_pair(
    const Reservation& reservation, const std::array<std::uint8_t, 16>& local_address) const {
    QueuePairOptions options;
    options.local_address = local_address;
    options.send_completions = options.receive_completions = &reservation.completions().handle();
    options.send_blocks = context_.config.ring.send_blocks;
    options.receive_entries = QueueUser::kReceives;
    options.not_ready_retries = kNotReadyRetries;
    options.carries_messages = false;  // those of core are written, or immediates
    return context_.device->create_queue_pair(options);
}

Hello Endpoint::hello_of(const QueuePairHandle& queue_pair, LaneMode mode,
                         const NotePool::Note* note) const {
    const Config& config = context_.config;
    Hello hello;
    hello.page_bytes = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
    hello.pointer_bytes = sizeof(void*);
    hello.features =
        Hello::kMoves | Hello::kHearsOfEnds | (mode == LaneMode::busy ? Hello::kAlwaysPolls : 0);
    hello.queue_pair = queue_pair.address();
    hello.credit_address = reinterpret_cast<std::uint64_t>(&words().credit);
    hello.armed_address = reinterpret_cast<std::uint64_t>(&words().armed);
    hello.posted.address = reinterpret_cast<std::uint64_t>(&posted_.words());
    hello.posted.key = posted_.remote_key();
    if (note == nullptr) note = incoming_->note.get();
    hello.note.address = note->address();
    hello.note.key = note->remote_key();
    hello.ring_address = reinterpret_cast<std::uint64_t>(incoming_->ring.address());
    hello.ring_bytes = config.ring.bytes;
    hello.said.longest_message = config.ring.longest_message;
    hello.ring_key = incoming_->ring.region().remote_key();
    hello.words_key = incoming_->line.remote_key();
    hello.tag_key = tag_key_;
    hello.user = geteuid();
    hello.process = static_cast<std::uint32_t>(getpid());
    hello.device_name = context_.device->info().name;
    return hello;
}

void Endpoint::connect(const Hello& peer, Deadline deadline) {
    // First, because it tells the peer's user: no memory of the size that the peer asks for before.
    queue_pair_->connect(peer.queue_pair, milliseconds_until(deadline.when));
    meet(peer);
}

bool Endpoint::connect_soon(const Hello& peer) {
    if (!queue_pair_->connect_soon(peer.queue_pair)) return false;
    meet(peer);
    return true;
}

void Endpoint::meet(const Hello& peer) {
    check_order(*queue_pair_);
    mirror_.emplace(*context_.device, context_.mirrors, peer.ring_bytes, Access::local_read);
    peer_ = peer;
}

MemberParts Endpoint::parts(LaneQueue& queue, PolledSet& polled) {
    return {.user = *user_,
            .queue = queue,
            .polled = polled,
            .local = {.memory = incoming_->ring.address(),
                      .bytes = context_.config.ring.bytes,
                      .tag_key = tag_key_,
                      .credit_word = &words().credit},
            .remote = {.address = peer_.ring_address,
                       .bytes = peer_.ring_bytes,
                       .remote_key = peer_.ring_key,
                       .tag_key = peer_.tag_key,
                       .mirror = mirror_->address(),
                       .mirror_key = mirror_->region().local_key()},
            .remote_credit = {peer_.credit_address, peer_.words_key},
            .posted = posted(),
            .armed = words().armed,
            .remote_arrival = {{peer_.armed_address, peer_.words_key}, peer_.posted},
            .posted_copy = posted_.copy(),
            .posted_copy_key = posted_.local_key(),
            .note = *incoming_->note,
            .remote_note = peer_.note,
            .longest_message = context_.config.ring.longest_message};
}

LaneMember& Endpoint::join(LaneQueue& queue, PolledSet& polled) {
    user_ = std::make_unique<QueueUser>(*queue_pair_, context_.device->invalidation_epoch());
    queue.attach(*user_, reservation_->completions());
    queue_ = &queue;
    has_joined_ = true;
    member_.emplace(parts(queue, polled));
    if (const Errc error = member_->arrival().begin(); error != Errc::ok)
        throw Error(error, context_.device->info().name, "it takes no receives");
    return *member_;
}

void Endpoint::stay() noexcept {
    user_->set_owner(&*member_);
    member_->take_news();
}

void Endpoint::drop_queue_pair() noexcept {
    if (queue_ == nullptr) return queue_pair_.reset();
    queue_pair_->fail();
    if (member_) flush();
    // Entries that come still are of no queue pair any more.
    queue_pair_.reset();
    std::exchange(queue_, nullptr)->detach(*user_, reservation_->completions());
    reservation_.reset();
}

void Endpoint::replace(Replacement by) {
    reservation_ = std::move(by.reservation);
    queue_pair_ = std::move(by.queue_pair);
    mode_ = by.lane.mode();
    peer_ = by.peer;
    auto user = std::make_unique<QueueUser>(*queue_pair_, context_.device->invalidation_epoch(),
                                            member_->path().retired());
    by.lane.queue().attach(*user, reservation_->completions());
    queue_ = &by.lane.queue();
    // The peer wrote it last before its move, and writes it next behind our `ready`.
    __atomic_store_n(&words().armed, 0, __ATOMIC_RELEASE);
    if (by.note != nullptr) incoming_->note.swap(by.note);
    member_->rebind({*user, *queue_, by.lane.polled(), posted(), *incoming_->note, peer_.note});
    user_ = std::move(user);
    if (by.note != nullptr) retire(std::move(by.note));
    if (const Errc error = member_->arrival().begin(); error != Errc::ok)
        throw Error(error, context_.device->info().name, "it takes no receives");
}

// A process that is stopped may still write it, as leave() has it; then the word is not given to
// another.
void Endpoint::retire(std::unique_ptr<NotePool::Note> note) {
    if (note->release()) return;
    std::list<Quarantine::Lot> lot(1);
    lot.front().held = std::shared_ptr<NotePool::Note>(std::move(note));
    lot.front().bytes = sizeof(std::uint64_t);
    context_.quarantine->put(std::move(lot));
}

void Endpoint::leave() noexcept {
    if (!std::exchange(has_joined_, false)) return;
    drop_queue_pair();
    if (member_) {
        context_.ended.accepted += member_->path().accepted();
        context_.ended.retired += member_->path().retired();
    }
    const bool is_ring_free = incoming_->ring.release(), is_line_free = incoming_->line.release(),
               is_note_free = incoming_->note->release();
    if (is_ring_free && is_line_free && is_note_free) return;
    // A peer that is stopped in the middle of a copy may still write the ring.
    lot_.front().held = incoming_;
    lot_.front().bytes = incoming_->ring.region().bytes();
    context_.quarantine->put(std::move(lot_));
}

void Endpoint::flush() noexcept {
    const Deadline limit = Deadline::after(kFlushLimit);
    SendPath& path = member_->path();
    for (unsigned round = 0; path.retired() != path.accepted(); ++round) {
        // What had been done before carries no completion of its own: one more request does.
        (void)path.post_last();
        (void)queue_->poll();
        if (!limit.passed(round)) continue;
        return log::warn("a queue pair did not flush its requests");
    }
}

// Rings and images are found complete by polling their last bytes.
void Endpoint::check_order(const QueuePairHandle& queue_pair) const {
    if (context_.config.device.assume_in_order || queue_pair.data_in_order()) return;
    throw Error(Errc::unsupported, context_.device->info().name,
                "it does not promise that the bytes of a write appear in memory in order, and "
                "messages are found by polling memory",
                "update its firmware and rdma-core; or, where adaptive routing and relaxed "
                "ordering are off, set assume_in_order = true in [device]");
}

}  // namespace verbatim
