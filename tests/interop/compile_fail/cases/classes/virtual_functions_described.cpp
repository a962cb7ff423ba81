// expect-ok
#include <memory>

#include <verbatim/objects.hpp>
struct X {
    virtual ~X();
    virtual void draw() = 0;
    int a;
};
VERBATIM_DESCRIBE(X, a)
class Y : public X {
  public:
    explicit Y(int);
    void draw() override;

  private:
    std::unique_ptr<X> b;
    VERBATIM_DESCRIBE_PRIVATE_DERIVED(Y, (X), b)
};
VERBATIM_PROTOTYPE(Y, 1)
void use(verbatim::Connection& c, const X& x) {
    verbatim::send(c, x);
    verbatim::receive<std::shared_ptr<X>>(c);
}
