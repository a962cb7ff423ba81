// Execution of commands, and what the data path calls.
#include "device_file.hpp"

#include <cerrno>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../protocol/command.hpp"
#include "../protocol/command_rules.hpp"
#include "../protocol/method.hpp"
#include "command_table.hpp"
#include "method_table.hpp"

namespace verbatim::uverbs {

int DeviceFile::execute(std::span<const std::byte> bytes) noexcept try {
    if (inherited()) return EIO;
    const std::lock_guard lock(mutex_);
    return dispatch(bytes);
} catch (const Error& error) {
    log::error("{}", error.what());
    return error.code() == Errc::invalid_argument ? EINVAL : ENOMEM;
} catch (const std::exception& error) {
    log::error("software NIC under rdma-core: {}", error.what());
    return ENOMEM;
}

// Under mutex_.
int DeviceFile::dispatch(std::span<const std::byte> bytes) {
    if (const int error = check_command(bytes); error != 0) return error;
    const auto command = Command::parse(bytes);
    if (!command) return EINVAL;
    if (!objects_.context.made && command->number() != IB_USER_VERBS_CMD_GET_CONTEXT) return EINVAL;
    const CommandHandler handler = command_handler(*command);
    return handler != nullptr ? handler(objects_, *command) : EOPNOTSUPP;
}

int DeviceFile::invoke(ib_uverbs_ioctl_hdr& header) noexcept try {
    if (inherited()) return EIO;
    Method method(header);
    if (!method.well_formed()) return EINVAL;
    const std::lock_guard lock(mutex_);
    return execute_method(objects_, method);
} catch (const Error& error) {
    log::error("{}", error.what());
    return ENOMEM;
} catch (const std::exception& error) {
    log::error("software NIC under rdma-core: {}", error.what());
    return ENOMEM;
}

void DeviceFile::progress(std::uint32_t completion_queue) noexcept {
    objects_.engine_thread.count_poll();
    if (CompletionQueue* const queue = objects_.completion_queues.find(completion_queue))
        queue->engine().progress();
}

// Nothing is posted to an XRC target, which has no engine of its own here.
void DeviceFile::requests_posted(std::uint32_t queue_pair) noexcept {
    objects_.engine_thread.count_post();
    const QueuePair* const pair = objects_.queue_pairs.find(queue_pair);
    if (pair == nullptr || pair->engine == nullptr) return;
    pair->engine->turns().posted();
    // What waits may wait for a time, and nobody will call then.
    if (pair->engine->turns().engines().requester().unexecuted()) [[unlikely]]
        objects_.engine_thread.bell().ring();
}

void DeviceFile::receives_posted(std::uint32_t queue_pair) noexcept {
    objects_.engine_thread.count_post();
    const QueuePair* const pair = objects_.queue_pairs.find(queue_pair);
    if (pair != nullptr && pair->engine != nullptr) pair->engine->turns().progress();
}

void DeviceFile::stamp(std::uint32_t completion_queue) noexcept {
    if (CompletionQueue* const queue = objects_.completion_queues.find(completion_queue))
        queue->engine().ring().stamp();
}

// What can be done is done before: it is polled without an event.
void DeviceFile::arming(std::uint32_t completion_queue) noexcept {
    if (CompletionQueue* const queue = objects_.completion_queues.find(completion_queue))
        queue->engine().progress();
    objects_.engine_thread.expect_doorbell();
}

void DeviceFile::announce(std::uint32_t completion_queue) noexcept {
    CompletionQueue* const queue = objects_.completion_queues.find(completion_queue);
    if (queue != nullptr && queue->channel() != nullptr && queue->announce())
        objects_.engine_thread.expect_event();
}

}  // namespace verbatim::uverbs
