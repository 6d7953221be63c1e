// RUN: ocannl-opt %s -p infer-projections,differentiate | filecheck %s

// A factor receives the product of the others: the result divided by it, or where it is zero, the product without it.
// CHECK:      %y = texpr.apply [] mul= %w[a] over (a = 3) : !texpr.tensor<f32>
// CHECK:      %{{.*}} = texpr.apply [] add= where(eq(%w[a], 0.0), 1.0, 0.0) over (a = 3) : !texpr.tensor<f32>
// CHECK-NEXT: %{{.*}} = texpr.apply [] mul= where(eq(%w[a], 0.0), 1.0, %w[a]) over (a = 3) : !texpr.tensor<f32>
texpr.routine @product {
  %w = texpr.param "w" : !texpr.tensor<3, f32>
  %y = texpr.apply mul= %w logic "a =>" : !texpr.tensor<f32>
  texpr.backprop %y
}
// Where two are zero, the derivative by one depends on the other.
// CHECK:      %[[SUM:.*]] = texpr.apply [] add= where(eq(%w[a], 0.0), %w[a], 0.0) over (a = 3) : !texpr.tensor<f32>
// CHECK-NEXT: %[[SQUARES:.*]] = texpr.apply [] add= where(eq(%w[a], 0.0), mul(%w[a], %w[a]), 0.0) over (a = 3) : !texpr.tensor<f32>
// CHECK-NEXT: %[[THREE:.*]] = texpr.apply [] = where(eq(%{{.*}}[], 3.0), %{{.*}}[], 0.0) over () : !texpr.tensor<f32>
// CHECK-NEXT: %[[TWO:.*]] = texpr.apply [] = where(eq(%{{.*}}[], 2.0), %{{.*}}[], mul(%[[THREE]][], %[[SUM]][])) over () : !texpr.tensor<f32>
// CHECK:      %{{.*}} = texpr.apply [a] = {{.*}} sub(%{{.*}}[], mul(%w[a], sub(%[[TWO]][], mul(%w[a], %[[THREE]][]))))
