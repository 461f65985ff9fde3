"""Linear and softmax regression from nothing: parameters, sgd and data iterator by hand."""
import random

import torch

torch.manual_seed(40)
random.seed(40)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")

# %%
def synthetic_data(w, b, num_examples):
    X = torch.normal(0, 1, (num_examples, len(w)))
    y = torch.matmul(X, w) + b
    return X, (y + torch.normal(0, 0.01, y.shape)).reshape((-1, 1))


def data_iter(batch_size, features, labels):
    indices = list(range(len(features)))
    random.shuffle(indices)
    for i in range(0, len(indices), batch_size):
        batch = torch.tensor(indices[i : min(i + batch_size, len(indices))])
        yield features[batch].to(device), labels[batch].to(device)


def linreg(X, w, b):
    return torch.matmul(X, w) + b


def squared_loss(y_hat, y):
    return (y_hat - y.reshape(y_hat.shape)) ** 2 / 2


def sgd(params, lr, batch_size):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / batch_size
            param.grad.zero_()


true_w, true_b = torch.tensor([2.0, -3.4, 1.5]), 4.2
features, labels = synthetic_data(true_w, true_b, 1000)
w = torch.normal(0, 0.01, size=(3, 1), device=device, requires_grad=True)
b = torch.zeros(1, device=device, requires_grad=True)
lr, num_epochs, batch_size, net, loss = 0.03, 20, 10, linreg, squared_loss

# %% train
for epoch in range(num_epochs):
    for X, y in data_iter(batch_size, features, labels):
        l = loss(net(X, w, b), y)
        l.sum().backward()
        sgd([w, b], lr, batch_size)
    with torch.no_grad():
        train_l = loss(net(features.to(device), w, b), labels.to(device))
        if epoch % 5 == 4:
            print(f"epoch {epoch + 1}, loss {float(train_l.mean()):f}")

# %%
print(f"{(true_w - w.detach().cpu().reshape(true_w.shape)).abs().max().item():.3f} {true_b - b.item():.3f}")
