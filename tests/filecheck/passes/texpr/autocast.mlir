// RUN: ocannl-opt %s -p autocast --split-input-file | filecheck %s

// The parameter is kept in f32 and used in bf16: so is what it is multiplied by, and the product is bf16, which its
// users see as f32.
// CHECK-LABEL: texpr.routine @layer
// CHECK: %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) : !texpr.tensor<4 -> 16, bf16>
// CHECK-NEXT: %x_bf16 = texpr.apply [i, i1] = %x[i, i1] over (i = 8, i1 = 4) : !texpr.tensor<8 | 4, bf16>
// CHECK-NEXT: %y_bf16 = texpr.apply [b, o] add= mul(%w[o, k], %x_bf16[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, bf16>
// CHECK-NEXT: %y = texpr.apply [i, i1] = %y_bf16[i, i1] over (i = 8, i1 = 16) : !texpr.tensor<8 | 16, f32>
// CHECK-NEXT: texpr.apply [b, o] = add(%y[b, o], %w[o, 0])
texpr.routine @layer {
  %w0 = texpr.param "w" : !texpr.tensor<4 -> 16, f32>
  %x = texpr.data "x" : !texpr.tensor<8 | 4, f32>
  %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) compute : !texpr.tensor<4 -> 16, bf16>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  %z = texpr.apply [b, o] = add(%y[b, o], %w[o, 0]) over (b = 8, o = 16) : !texpr.tensor<8 | 16, f32>
  texpr.forward %z
}

// -----

// A product of matrices that are computed with such a parameter is computed as it is used, as scores of attention; a
// scalar product of rows is not, nor is a product of other matrices.
// CHECK-LABEL: texpr.routine @others
// CHECK: %s_bf16 = texpr.apply [i, j] add= mul(%h_bf16[i, k], %x_bf16[j, k]) over (i = 8, j = 8, k = 4) : !texpr.tensor<8, 8, bf16>
// CHECK-NEXT: %s = texpr.apply
// CHECK-NEXT: %n = texpr.apply [i] add= mul(%h[i, k], %x[i, k]) over (i = 8, k = 4) : !texpr.tensor<8, f32>
// CHECK-NEXT: %o = texpr.apply [i, j] add= mul(%x[i, k], %x[j, k]) over (i = 8, j = 8, k = 4) : !texpr.tensor<8, 8, f32>
texpr.routine @others {
  %w0 = texpr.param "w" : !texpr.tensor<4, f32>
  %x = texpr.data "x" : !texpr.tensor<8, 4, f32>
  %w = texpr.apply [i0] = %w0[i0] over (i0 = 4) compute : !texpr.tensor<4, bf16>
  %h = texpr.apply [i, k] = mul(%w[k], %x[i, k]) over (i = 8, k = 4) : !texpr.tensor<8, 4, f32>
  %s = texpr.apply [i, j] add= mul(%h[i, k], %x[j, k]) over (i = 8, j = 8, k = 4) : !texpr.tensor<8, 8, f32>
  %n = texpr.apply [i] add= mul(%h[i, k], %x[i, k]) over (i = 8, k = 4) : !texpr.tensor<8, f32>
  %o = texpr.apply [i, j] add= mul(%x[i, k], %x[j, k]) over (i = 8, j = 8, k = 4) : !texpr.tensor<8, 8, f32>
  texpr.forward %s
  texpr.forward %n
  texpr.forward %o
}

// -----

// f64 stays, and so does what is cast by hand.
// CHECK-LABEL: texpr.routine @wide
// CHECK-NOT: compute
// CHECK: %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f64>
// CHECK: %z = texpr.apply [b, o] add= mul(%v[o, k], %u[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
texpr.routine @wide {
  %w0 = texpr.param "w" : !texpr.tensor<4 -> 16, f32>
  %x = texpr.data "x" : !texpr.tensor<8 | 4, f64>
  %u = texpr.data "u" : !texpr.tensor<8 | 4, f32>
  %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) compute : !texpr.tensor<4 -> 16, bf16>
  %v = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) : !texpr.tensor<4 -> 16, bf16>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f64>
  %z = texpr.apply [b, o] add= mul(%v[o, k], %u[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  texpr.forward %y
  texpr.forward %z
}

// -----

// Factors alone: what is kept in bf16 is read as it is, and the result is f32. Products of what is computed with such a
// parameter are none of it, and neither are those of it without a sum.
// CHECK-LABEL: texpr.routine @factors
// CHECK: %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) : !texpr.tensor<4 -> 16, f32>
// CHECK-NEXT: %x_bf16 = texpr.apply [i, i1] = %x[i, i1] over (i = 8, i1 = 4) : !texpr.tensor<8 | 4, bf16>
// CHECK-NEXT: %y = texpr.apply [b, o] add= mul(%w0[o, k], %x_bf16[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
// CHECK-NEXT: %s = texpr.apply [i, j] add= mul(%y[i, k], %y[j, k]) over (i = 8, j = 8, k = 16) : !texpr.tensor<8, 8, f32>
// CHECK-NEXT: %p = texpr.apply [b, o] = mul(%w[o, 0], %y[b, o]) over (b = 8, o = 16) : !texpr.tensor<8 | 16, f32>
texpr.routine @factors {
  %w0 = texpr.param "w" : !texpr.tensor<4 -> 16, bf16>
  %x = texpr.data "x" : !texpr.tensor<8 | 4, f32>
  %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) compute factors bf16 : !texpr.tensor<4 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  %s = texpr.apply [i, j] add= mul(%y[i, k], %y[j, k]) over (i = 8, j = 8, k = 16) : !texpr.tensor<8, 8, f32>
  %p = texpr.apply [b, o] = mul(%w[o, 0], %y[b, o]) over (b = 8, o = 16) : !texpr.tensor<8 | 16, f32>
  texpr.forward %s
  texpr.forward %p
}

// -----

// What is kept in f32 is rounded, too, once for all products.
// CHECK-LABEL: texpr.routine @kept_in_f32
// CHECK: %w_bf16 = texpr.apply {{.*}} : !texpr.tensor<4 -> 16, bf16>
// CHECK: %x_bf16 = texpr.apply {{.*}} : !texpr.tensor<8 | 4, bf16>
// CHECK-NEXT: %y = texpr.apply [b, o] add= mul(%w_bf16[o, k], %x_bf16[b, k]) {{.*}} : !texpr.tensor<8 | 16, f32>
// CHECK-NEXT: %z = texpr.apply [o] add= mul(%w_bf16[o, k], %x_bf16[0, k]) {{.*}} : !texpr.tensor<16, f32>
texpr.routine @kept_in_f32 {
  %w0 = texpr.param "w" : !texpr.tensor<4 -> 16, f32>
  %x = texpr.data "x" : !texpr.tensor<8 | 4, f32>
  %w = texpr.apply [i0, i1] = %w0[i0, i1] over (i0 = 16, i1 = 4) compute factors bf16 : !texpr.tensor<4 -> 16, f32>
  %y = texpr.apply [b, o] add= mul(%w[o, k], %x[b, k]) over (b = 8, o = 16, k = 4) : !texpr.tensor<8 | 16, f32>
  %z = texpr.apply [o] add= mul(%w[o, k], %x[0, k]) over (o = 16, k = 4) : !texpr.tensor<16, f32>
  texpr.forward %y
  texpr.forward %z
}
