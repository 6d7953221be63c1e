// RUN: ocannl-opt %s --split-input-file -p distribute-scans | filecheck %s

// A sum over the iterations is a reduction over the positions, and what it reads is stacked.
// CHECK-LABEL: texpr.routine @sums
// CHECK:         %[[NEXT:.*]], %[[STACK:.*]] = texpr.scan t = 7 carry (%h = %h0 : !texpr.tensor<2 | 4, f32>) {
// CHECK-NEXT:      %[[OWN:.*]] = texpr.apply [b, o] = sin(%h[b, o])
// CHECK-NEXT:      texpr.yield carry (%[[OWN]]) each (%[[OWN]] at batch 0)
// CHECK-NEXT:    } : !texpr.tensor<2 | 4, f32>, !texpr.tensor<7, 2 | 4, f32>
// CHECK-NEXT:    %total = texpr.apply [o] add= %[[STACK]][t, b, o] over (t = 7, b = 2, o = 4) : !texpr.tensor<4, f32>
// CHECK-NEXT:    texpr.forward %[[NEXT]]
// CHECK-NEXT:    texpr.forward %total
texpr.routine @sums {
  %h0 = texpr.param "h0" : !texpr.tensor<2 | 4, f32>
  %zero = texpr.constant 0.0 : !texpr.tensor<4, f32>
  %last, %total = texpr.scan t = 7 carry (%h = %h0 : !texpr.tensor<2 | 4, f32>, %s = %zero : !texpr.tensor<4, f32>) {
    %next = texpr.apply [b, o] = sin(%h[b, o]) over (b = 2, o = 4) : !texpr.tensor<2 | 4, f32>
    %part = texpr.apply [o] add= %next[b, o] over (b = 2, o = 4) : !texpr.tensor<4, f32>
    %sum = texpr.apply [o] = add(%s[o], %part[o]) over (o = 4) : !texpr.tensor<4, f32>
    texpr.yield carry (%next, %sum)
  } : !texpr.tensor<2 | 4, f32>, !texpr.tensor<4, f32>
  texpr.forward %last
  texpr.forward %total
}

// -----

// A sum that begins with a value is added to it; the product behind the carry moves, and what is computed from it.
// CHECK-LABEL: texpr.routine @behind
// CHECK:           texpr.yield carry (%[[OWN:.*]]) each (%{{.*}} at batch 0, %[[OWN]] at batch 0)
// CHECK-NEXT:    } : !texpr.tensor<4, f32>, !texpr.tensor<7 | 4, f32>, !texpr.tensor<7 | 4, f32>
// CHECK:         %[[TOTAL:.*]] = texpr.apply [] add= mul(%{{.*}}[t, o], %{{.*}}[t, o]) over (t = 7, o = 4) : !texpr.tensor<f32>
// CHECK-NEXT:    %total = texpr.apply [] = add(%s0[], %[[TOTAL]][]) over () : !texpr.tensor<f32>
// CHECK-NEXT:    %[[PRODUCT:.*]] = texpr.apply [t, o] add= mul(%w[o, k], %{{.*}}[t, k]) over (t = 7, o = 5, k = 4)
// CHECK-NEXT:    %ys = texpr.apply [t, o] = relu(%[[PRODUCT]][t, o]) over (t = 7, o = 5) : !texpr.tensor<7 | 5, f32>
texpr.routine @behind {
  %h0 = texpr.param "h0" : !texpr.tensor<4, f32>
  %w = texpr.param "w" : !texpr.tensor<4 -> 5, f32>
  %s0 = texpr.param "s0" : !texpr.tensor<f32>
  %last, %total, %ys = texpr.scan t = 7 reverse carry (%h = %h0 : !texpr.tensor<4, f32>, %s = %s0 : !texpr.tensor<f32>) with (%v = %w) {
    %next = texpr.apply [o] = sin(%h[o]) over (o = 4) : !texpr.tensor<4, f32>
    %part = texpr.apply [] add= mul(%h[o], %next[o]) over (o = 4) : !texpr.tensor<f32>
    %sum = texpr.apply [] = add(%s[], %part[]) over () : !texpr.tensor<f32>
    %product = texpr.apply [o] add= mul(%v[o, k], %next[k]) over (o = 5, k = 4) : !texpr.tensor<5, f32>
    %y = texpr.apply [o] = relu(%product[o]) over (o = 5) : !texpr.tensor<5, f32>
    texpr.yield carry (%next, %sum) each (%y at batch 0)
  } : !texpr.tensor<4, f32>, !texpr.tensor<f32>, !texpr.tensor<7 | 5, f32>
  texpr.forward %last
  texpr.forward %total
  texpr.forward %ys
}

// -----

// A sum of which an iteration reads something stays, and so does what a carry depends on.
// CHECK-LABEL: texpr.routine @stays
// CHECK:           %part = texpr.apply [] add= %h[o] over (o = 4)
// CHECK:           texpr.yield carry (%next, %sum)
texpr.routine @stays {
  %h0 = texpr.param "h0" : !texpr.tensor<4, f32>
  %zero = texpr.constant 0.0 : !texpr.tensor<f32>
  %last, %total = texpr.scan t = 7 carry (%h = %h0 : !texpr.tensor<4, f32>, %s = %zero : !texpr.tensor<f32>) {
    %next = texpr.apply [o] = mul(%h[o], %s[]) over (o = 4) : !texpr.tensor<4, f32>
    %part = texpr.apply [] add= %h[o] over (o = 4) : !texpr.tensor<f32>
    %sum = texpr.apply [] = add(%s[], %part[]) over () : !texpr.tensor<f32>
    texpr.yield carry (%next, %sum)
  } : !texpr.tensor<4, f32>, !texpr.tensor<f32>
  texpr.forward %last
}

// -----

// The index counts iterations, of which the first is at the last position: what it is in stays.
// CHECK-LABEL: texpr.routine @counted
// CHECK-NOT:     texpr.apply
// CHECK:         texpr.scan t = 7 reverse carry (%h = %h0 : !texpr.tensor<4, f32>) with (%v = %w) {
// CHECK-NEXT:      %part = texpr.apply [] add= %v[t, o] over (o = 4)
texpr.routine @counted {
  %h0 = texpr.param "h0" : !texpr.tensor<4, f32>
  %w = texpr.param "w" : !texpr.tensor<7 | 4, f32>
  %last = texpr.scan t = 7 reverse carry (%h = %h0 : !texpr.tensor<4, f32>) with (%v = %w) {
    %part = texpr.apply [] add= %v[t, o] over (o = 4) : !texpr.tensor<f32>
    %next = texpr.apply [o] = mul(%h[o], %part[]) over (o = 4) : !texpr.tensor<4, f32>
    texpr.yield carry (%next)
  } : !texpr.tensor<4, f32>
  texpr.forward %last
}
