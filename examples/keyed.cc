// keyed.cc - C++: records with a key and a header; those with one key keep their order.
//
//     keyed [BOOTSTRAP [TOPIC]]

#include <cafka.h>

#include <cstdio>
#include <memory>
#include <string>

namespace
{

struct ProducerFree {
    void operator()(cafka_producer *producer) const
    {
        cafka_producer_free(producer);
    }
};
using Producer = std::unique_ptr<cafka_producer, ProducerFree>;

int die(const cafka_error &err)
{
    std::fprintf(stderr, "keyed: %s\n", err.message);
    return 1;
}

cafka_record record_of(const char *topic, const std::string &key, const std::string &value)
{
    cafka_record record = cafka_record();
    record.topic = topic;
    record.key = key.data();
    record.key_size = key.size();
    record.value = value.data();
    record.value_size = value.size();
    return record;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string bootstrap = argc > 1 ? argv[1] : "localhost:9092";
    const char *topic = argc > 2 ? argv[2] : "orders";
    cafka_producer *opened;
    cafka_error err;
    if (cafka_producer_open(&opened, ("bootstrap.servers=" + bootstrap).c_str(), &err))
        return die(err);
    Producer producer(opened);

    const cafka_header header = {"source", 0, "keyed.cc", 8};
    for (int i = 0; i < 100; i++) {
        const std::string key = "customer-" + std::to_string(i % 10);
        const std::string value = "order " + std::to_string(i);
        cafka_record record = record_of(topic, key, value);
        record.headers = &header;
        record.header_count = 1;
        if (cafka_producer_send(producer.get(), &record, &err))
            return die(err);
    }
    return cafka_producer_close(producer.get(), 10000, &err) ? die(err) : 0;
}
