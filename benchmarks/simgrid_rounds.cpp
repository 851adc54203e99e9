// All-to-all in rounds on a fat tree under SimGrid, for bench_flows.py.
//
//   g++ -O2 -o rounds simgrid_rounds.cpp -lsimgrid
//   ./rounds HOSTS equal|random        prints: last end (ns), CPU seconds of the run
//
// Host i sends its k-th flow to host (i + k) mod n when the one before has ended. One actor a host; CM02 without latencies.

#include <cstdio>
#include <ctime>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("network/weight-S:0");
  sg4::Engine::set_config("network/bandwidth-factor:1");
  sg4::Engine::set_config("network/latency-factor:1");
  sg4::Engine::set_config("surf/precision:1e-9");
  sg4::Engine::set_config("maxmin/precision:1e-9");
  const long n     = std::stol(argv[1]);
  const bool equal = std::string(argv[2]) == "equal";
  const std::vector<unsigned int> down =
      n == 64 ? std::vector<unsigned int>{4, 4, 4}
              : n == 256 ? std::vector<unsigned int>{8, 8, 4} : std::vector<unsigned int>{8, 8, 16};
  const std::vector<unsigned int> up =
      n == 64 ? std::vector<unsigned int>{1, 4, 4} : std::vector<unsigned int>{1, 8, 8};
  auto host = [](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    auto* made = zone->create_host("host" + std::to_string(id), 1e9)->seal();
    return std::make_pair(made->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
  };
  auto* zone = sg4::create_fatTree_zone("tree", nullptr, {3, down, up, {1, 1, 1}}, sg4::ClusterCallbacks(host), 50e9, 0,
                                        sg4::Link::SharingPolicy::SPLITDUPLEX);
  zone->seal();
  std::vector<sg4::Host*> hosts;
  for (long i = 0; i < n; i++)
    hosts.push_back(engine.host_by_name("host" + std::to_string(i)));
  for (long i = 0; i < n; i++)
    sg4::Actor::create("sender", hosts[i], [i, n, equal, &hosts] {
      for (long k = 1; k < n; k++) {
        const double size = equal ? 1048576.0 : 524288.0 + (i * 2654435761L + k * 40503L) % 1048576L;
        sg4::Comm::sendto(hosts[i], hosts[(i + k) % n], size);
      }
    });
  const std::clock_t begun = std::clock();
  engine.run();
  std::printf("%.0f %.3f\n", sg4::Engine::get_clock() * 1e9, double(std::clock() - begun) / CLOCKS_PER_SEC);
}
