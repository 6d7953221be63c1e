// One half-moons step written naively: a loop nest for each operation. No fmaf and fmaxf, which gcc -O3 leaves as calls.
#include <stdint.h>

static float relu(float x) { return x > 0.0f ? x : 0.0f; }

enum { BATCHES = 80, STEPS = 6400 };

void moons_step(uint32_t batch_n, uint32_t step_n, const float *moons_flat, const float *moons_classes, float *w1,
                float *b1, float *w2, float *b2, float *w3, float *loss) {
  float n35[160] = {0}, relu1[160], n41[160] = {0}, relu2[160], mlp[10] = {0}, margin[10];
  float mlp_grad[10], relu2_grad[160] = {0}, n43_grad[160], relu1_grad[160] = {0}, n37_grad[160];
  float w1_grad[32] = {0}, b1_grad[16] = {0}, w2_grad[256] = {0}, b2_grad[16] = {0}, w3_grad[16] = {0};
  const float learning_rate = 0.1f * (2.0f * STEPS - (float)step_n) / STEPS;
  const float *x = moons_flat + batch_n * 20, *label = moons_classes + batch_n * 10;

  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 2; ++i) n35[b * 16 + o] += w1[o * 2 + i] * x[b * 2 + i];
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o) relu1[b * 16 + o] = relu(b1[o] + n35[b * 16 + o]);
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 16; ++i) n41[b * 16 + o] += w2[o * 16 + i] * relu1[b * 16 + i];
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o) relu2[b * 16 + o] = relu(b2[o] + n41[b * 16 + o]);
  for (int b = 0; b < 10; ++b)
    for (int i = 0; i < 16; ++i) mlp[b] += w3[i] * relu2[b * 16 + i];
  for (int b = 0; b < 10; ++b) margin[b] = 1.0f - label[b] * mlp[b];
  *loss = 0;
  for (int b = 0; b < 10; ++b) *loss += relu(margin[b]);
  *loss /= 10.0f;

  for (int b = 0; b < 10; ++b) mlp_grad[b] = margin[b] > 0.0f ? -label[b] / 10.0f : 0.0f;
  for (int b = 0; b < 10; ++b)
    for (int i = 0; i < 16; ++i) w3_grad[i] += mlp_grad[b] * relu2[b * 16 + i];
  for (int b = 0; b < 10; ++b)
    for (int i = 0; i < 16; ++i) relu2_grad[b * 16 + i] += mlp_grad[b] * w3[i];
  for (int b = 0; b < 160; ++b) n43_grad[b] = relu2[b] > 0.0f ? relu2_grad[b] : 0.0f;
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o) b2_grad[o] += n43_grad[b * 16 + o];
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 16; ++i)
        w2_grad[o * 16 + i] += n43_grad[b * 16 + o] * relu1[b * 16 + i];
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 16; ++i)
        relu1_grad[b * 16 + i] += n43_grad[b * 16 + o] * w2[o * 16 + i];
  for (int b = 0; b < 160; ++b) n37_grad[b] = relu1[b] > 0.0f ? relu1_grad[b] : 0.0f;
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o) b1_grad[o] += n37_grad[b * 16 + o];
  for (int b = 0; b < 10; ++b)
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 2; ++i)
        w1_grad[o * 2 + i] += n37_grad[b * 16 + o] * x[b * 2 + i];

  for (int i = 0; i < 32; ++i) w1[i] -= learning_rate * (w1_grad[i] + 0.0001f * w1[i]);
  for (int i = 0; i < 16; ++i) b1[i] -= learning_rate * (b1_grad[i] + 0.0001f * b1[i]);
  for (int i = 0; i < 256; ++i) w2[i] -= learning_rate * (w2_grad[i] + 0.0001f * w2[i]);
  for (int i = 0; i < 16; ++i) b2[i] -= learning_rate * (b2_grad[i] + 0.0001f * b2[i]);
  for (int i = 0; i < 16; ++i) w3[i] -= learning_rate * (w3_grad[i] + 0.0001f * w3[i]);
}

void moons_steps(uint32_t steps, const float *moons_flat, const float *moons_classes, float *w1, float *b1, float *w2,
                 float *b2, float *w3, float *loss) {
  for (uint32_t n = 0; n < steps; ++n)
    moons_step(n % BATCHES, n, moons_flat, moons_classes, w1, b1, w2, b2, w3, loss);
}
